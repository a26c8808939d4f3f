"""What `api` and `ctx` can do, when they may, and what becomes of it."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.access import Access
from ludolf.ai.draft import Draft
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import CustomMessage, Text, UserMessage, text_of
from ludolf.ai.models import Model
from ludolf.config.models.models_file import make_model
from ludolf.extensions import payloads
from ludolf.extensions.runtime import LOADING
from ludolf.session.entries import MessageBody
from tests.extension_host import Bench

STALE = "This extension instance is stale"


async def _bench(folder: Path, body: str, flags: Mapping[str, str | bool] | None = None) -> Bench:
    """An extension whose factory has this body."""
    bench = Bench(folder, flags=flags)
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    assert await bench.load(f"def extension(api):\n{lines}\n") == ()
    return bench


async def _do(folder: Path, work: str) -> Bench:
    """The same with one command, which is run at once."""
    lines = "\n".join(f"    {line}" for line in work.splitlines())
    bench = await _bench(folder, f"@api.command('do')\nasync def do(args, ctx):\n{lines}")
    await _call(bench, "/do it  now")
    return bench


async def _call(bench: Bench, text: str) -> None:
    called = bench.extensions.find_command(text)
    assert called is not None
    await bench.extensions.run_command(called)


# ---------------------------------------------------------------- when


@pytest.mark.parametrize(
    "action",
    [
        "api.send_message('t', 'x')",
        "api.send_user_message('x')",
        "api.append_entry('t')",
        "api.set_session_name('x')",
        "api.set_model('p/m')",
        "api.active_tools",
        "api.events.emit('bell')",
    ],
)
async def test_acting_while_loading_raises(action: str, tmp_path: Path) -> None:
    (error,) = await Bench(tmp_path).load(f"def extension(api): {action}")
    assert error.error == f"{LOADING} (x0.py, line 1)"


async def test_after_the_session_every_use_raises(tmp_path: Path) -> None:
    uses = """
kept = []
@api.command('keep')
def keep(args, ctx): kept.append(ctx)
@api.command('use')
async def use(args, ctx):
    for work in (
        lambda: api.set_session_name('x'), lambda: api.on('agent_start'), lambda: api.flag('x'),
        lambda: api.events.emit('x'), lambda: kept[0].cwd, lambda: kept[0].ui.notify('x'),
        lambda: kept[0].session, lambda: ctx.send_message('a', 'b'),
    ):
        try:
            work()
        except Exception as error:
            kept.append(str(error))
    raise RuntimeError('|'.join(kept[1:]))
"""
    bench = await _bench(tmp_path, uses)
    await _call(bench, "/keep")
    await bench.extensions.close()
    await _call(bench, "/use")
    texts = bench.reports[0][2].split("|")
    assert len(texts) == 8
    assert all(text.startswith(STALE) for text in texts)


async def test_closing_ends_what_extensions_left_running(tmp_path: Path) -> None:
    body = """
import asyncio
@api.events.on('hang')
async def hang(data):
    try:
        data.append('began')
        await asyncio.Event().wait()
    finally:
        data.append('ended')
seen = []
@api.command('go')
def go(args, ctx):
    api.events.emit('hang', seen)
@api.on('agent_start')
def tell(event, ctx): raise RuntimeError(' '.join(seen))
"""
    bench = await _bench(tmp_path, body)
    await _call(bench, "/go")
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await bench.extensions.close()
    await bench.runner.emit(payloads.AgentStart())
    assert bench.told() == [("agent_start", "began ended")]


# ---------------------------------------------------------------- commands


async def test_a_command_gets_the_rest_of_the_line(tmp_path: Path) -> None:
    bench = await _do(tmp_path, "api.set_session_name(f'<{args}>')")
    assert bench.host.session.name == "<it  now>"


@pytest.mark.parametrize("text", ["do", "/other", "/", "say /do", "/do\nx", "/Do"])
async def test_other_texts_call_no_command(text: str, tmp_path: Path) -> None:
    bench = await _bench(tmp_path, "api.command('do', print)")
    assert bench.extensions.find_command(text) is None


@pytest.mark.parametrize("work", ["raise RuntimeError('command failed')", "raise SystemExit"])
async def test_a_failing_command_is_reported_under_its_name(work: str, tmp_path: Path) -> None:
    bench = await _do(tmp_path, work)
    ((path, event, _),) = bench.reports
    assert (path, event) == ("command:do", "command")


async def test_commands_are_listed_with_their_source(tmp_path: Path) -> None:
    bench = await _bench(tmp_path, "api.command('/do', print, description='d')")
    (item,) = bench.extensions.commands()
    assert (item.name, item.description, item.source) == ("do", "d", "extension")
    assert item.source_info.path == item.path == str(tmp_path / "x0.py")


async def test_commands_may_change_the_session_and_go_on_in_the_new_one(tmp_path: Path) -> None:
    work = """
async def then(fresh):
    await fresh.send_user_message('hello')
results = [await ctx.new_session('parent', with_session=then), await ctx.switch_session('/f'),
           await ctx.fork('e1', position='at'), await ctx.navigate_tree('e2', summarize=True)]
await ctx.wait_for_idle()
await ctx.reload()
api.set_session_name(repr([r['cancelled'] for r in results]))
"""
    bench = await _do(tmp_path, work)
    assert bench.reports == []
    assert bench.host.session.name == "[False, True, False, False]"
    assert bench.host.done == [
        ("new", "parent"),
        ("switch", "/f"),
        ("fork", "e1", "at"),
        ("navigate", "e2", True),
        ("wait_for_idle",),
        ("reload",),
    ]
    await bench.extensions.continue_with(bench.host.then)
    assert bench.host.done[6:] == [("send_user_message", "hello", None, False), ("wait_for_idle",)]


# ---------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("given", "value"),
    [({}, "'d' False None"), ({"name": "x", "on": True, "other": "1"}, "'x' True None")],
)
async def test_flags_are_known_already_while_loading(
    given: dict[str, str | bool], value: str, tmp_path: Path
) -> None:
    body = (
        "api.flag('name', type=str, default='d')\napi.flag('--on', default=False)\n"
        "seen = ' '.join(repr(api.get_flag(n)) for n in ('name', '--on', 'other'))\n"
        "api.command('see', lambda args, ctx: api.set_session_name(seen))"
    )
    bench = await _bench(tmp_path, body, given)
    await _call(bench, "/see")
    assert bench.host.session.name == value


async def test_flags_that_nobody_knows_or_that_lack_a_value_are_errors(tmp_path: Path) -> None:
    body = "api.flag('name', type='string')\napi.flag('on')"
    bench = await _bench(tmp_path, body, {"--name": True, "--on": "yes", "--odd": "x"})
    assert bench.extensions.flag_errors() == (
        'Extension flag "--name" requires a value',
        "Unknown option: --odd",
    )


@pytest.mark.parametrize("call", ["api.flag('x', type=int)", "api.flag('x', default='no')"])
async def test_a_flag_that_makes_no_sense_is_refused(call: str, tmp_path: Path) -> None:
    (error,) = await Bench(tmp_path).load(f"def extension(api): {call}")
    assert error.error.startswith('Flag "--x" ')


# ---------------------------------------------------------------- acting


async def test_messages_are_sent_with_their_options(tmp_path: Path) -> None:
    work = """
api.send_message('note', 'a', details={'n_n': 1})
ctx.send_message('note', ['b'], display=False, trigger_turn=True, deliver_as='nextTurn')
api.send_user_message([{'type': 'text', 'text': 'c'}], deliver_as='steer')
ctx.send_user_message('/d', expand_prompt_templates=True)
"""
    bench = await _do(tmp_path, work)
    first, second, third, fourth = bench.host.done
    message = first[1]
    assert isinstance(message, CustomMessage)
    assert (message.custom_type, message.content, message.display) == ("note", "a", True)
    assert (message.details, first[2:]) == ({"n_n": 1}, (None, None))
    assert (second[1].content, second[1].display) == ((Text(text="b"),), False)
    assert second[2:] == (True, "nextTurn")
    assert third == ("send_user_message", (Text(text="c"),), "steer", False)
    assert fourth == ("send_user_message", "/d", None, True)


async def test_a_refused_message_is_reported_and_the_command_goes_on(tmp_path: Path) -> None:
    bench = await _bench(
        tmp_path,
        "@api.command('say')\ndef say(args, ctx):\n"
        " api.send_user_message(args)\n api.set_session_name('went on')",
    )
    bench.host.is_idle = False
    await _call(bench, "/say x")
    await asyncio.sleep(0)  # it is reported once the command is answered
    assert bench.reports == [("<runtime>", "send_user_message", "Agent is already processing.")]
    assert bench.host.session.name == "went on"


async def test_entries_labels_and_names_land_in_the_session_and_can_be_read(
    tmp_path: Path,
) -> None:
    work = """
own = api.append_entry('todo', {'items_left': [1]})
api.set_label(own, 'here')
api.set_session_name('named')
session = ctx.session
entry = session.entry(own)
assert (entry.type, entry.custom_type, entry.data) == ('custom', 'todo', {'items_left': [1]})
assert session.label(own) == 'here' and api.session_name == session.name == 'named'
assert [e.type for e in session.branch()] == [e.type for e in session.entries()]
assert [e.type for e in session.branch(own)] == ['message', 'custom']
assert [e.type for e in session.children(own)] == ['label'] and session.children('none') == ()
first = session.entries()[0]
assert first.message.content == 'hi' and first.parent_id is None
assert session.tree()[0].entry == first and session.tree()[0].children[0].label == 'here'
assert [m.content for m in session.messages()] == ['hi']
assert not hasattr(entry, 'message') and not hasattr(entry, 'nothing')
raise RuntimeError('all good')
"""
    lines = "\n".join(f"    {line}" for line in work.splitlines())
    bench = await _bench(tmp_path, f"@api.command('do')\nasync def do(args, ctx):\n{lines}")
    bench.host.session.append(MessageBody(message=UserMessage(content="hi", timestamp=1)))
    await _call(bench, "/do")
    assert bench.told() == [("command", "all good")]


async def test_the_context_tells_and_does_what_the_host_can(tmp_path: Path) -> None:
    work = """
assert (ctx.mode, ctx.has_ui, ctx.is_idle, ctx.is_project_trusted) == ('rpc', True, True, True)
assert (ctx.model.id, ctx.thinking_level, ctx.signal, ctx.system_prompt) == (
    'm', 'off', None, 'Be good.')
assert ctx.active_tools == api.active_tools == ('read',)
assert ctx.system_prompt_options.cwd == str(ctx.cwd)
ctx.abort(); ctx.shutdown(); ctx.set_thinking_level('low'); api.set_active_tools(['a', 'b'])
try:
    ctx.set_model('p/unknown')
except Exception as error:
    raise RuntimeError(str(error))
"""
    bench = await _do(tmp_path, work)
    assert bench.told() == [("command", "Model not found: p/unknown")]
    assert bench.host.done == [
        ("abort",),
        ("shutdown",),
        ("set_thinking_level", "low"),
        ("set_active_tools", ("a", "b")),
    ]


async def test_a_compaction_goes_on_by_itself_and_tells_how_it_ended(tmp_path: Path) -> None:
    work = """
import asyncio
seen, done = [], asyncio.Event()
ctx.compact('short', on_complete=lambda result: seen.append(result.summary))
ctx.compact(on_error=lambda text: (seen.append(text), done.set()))
await done.wait()
raise RuntimeError(' / '.join(seen))
"""
    bench = await _do(tmp_path, work)
    assert bench.told() == [("command", "short / Nothing to compact (session too small)")]


async def test_a_tool_registered_later_is_told_to_the_host(tmp_path: Path) -> None:
    bench = await _do(tmp_path, "@api.tool\ndef late(): ...")
    assert list(bench.extensions.tools()) == ["late"]
    assert bench.host.done == [("tools_changed", "late")]


async def test_extensions_hear_each_other_on_the_bus(tmp_path: Path) -> None:
    listen = """
def extension(api):
    end = api.events.on("bell", lambda data: api.set_session_name(f"heard {data}"))
    @api.events.on("bell")
    async def fail(data): raise RuntimeError("deaf")
    api.command("stop", lambda args, ctx: end())
"""
    ring = (
        "def extension(api): api.command('ring', lambda args, ctx: api.events.emit('bell', args))"
    )
    bench = Bench(tmp_path)
    await bench.load(listen, ring)
    for text in ("/ring one", "/stop", "/ring two"):
        await _call(bench, text)
        await asyncio.sleep(0)
    assert bench.host.session.name == "heard one"
    assert bench.reports == [(str(tmp_path / "x0.py"), "events:bell", "deaf")] * 2


# ---------------------------------------------------------------- programs


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("'sh', ['-c', 'echo out; echo err >&2; exit 3']", "out\n|err\n|3|False"),
        ("'sh', ['-c', 'echo $PWD'], cwd='sub'", "{folder}/sub\n||0|False"),
        ("'sh', ['-c', 'echo a; sleep 60'], timeout=2000", "a\n||143|True"),
        ("'sh', ['-c', 'kill -9 $$']", "||137|False"),
    ],
)
async def test_programs_run_without_a_shell_and_to_their_end(
    call: str, result: str, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    work = (
        f"done = await api.exec({call})\n"
        "raise RuntimeError(f'{done.stdout}|{done.stderr}|{done.code}|{done.killed}')"
    )
    bench = await _do(tmp_path, work)
    assert bench.told() == [("command", result.format(folder=tmp_path))]


async def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    bench = await _do(tmp_path, "await ctx.exec('surely-not-there')")
    assert bench.reports[0][2].startswith("Cannot start surely-not-there: ")


async def test_cancelling_kills_the_program(tmp_path: Path) -> None:
    work = "await api.exec('sh', ['-c', 'echo $$ > pid; exec sleep 60'])"
    lines = f"@api.command('do')\nasync def do(args, ctx): {work}"
    bench = await _bench(tmp_path, lines)

    async def cancel_once_it_runs(task: "asyncio.Task[Any]") -> int:
        pid = await asyncio.to_thread((tmp_path / "pid").read_text)
        task.cancel()
        return int(pid)

    os.mkfifo(tmp_path / "pid")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(_call(bench, "/do"))
        pid = group.create_task(cancel_once_it_runs(running))
    assert running.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid.result(), 0)


# ---------------------------------------------------------------- providers


async def test_a_provider_is_made_known_when_the_session_begins(tmp_path: Path) -> None:
    body = """
api.provider("mine", base_url="http://x", api="openai-completions", api_key="$K",
             headers={"X-My_Head": "1"},
             models=[{"id": "m1", "context_window": 10, "compat": {"a_b": 1}}])
api.provider("mine", base_url="http://y")
api.provider("gone", base_url="http://z")
api.unregister_provider("gone")
"""
    bench = await _bench(tmp_path, body)
    assert list(bench.host.providers.added) == ["mine"]
    entry, backend = bench.host.providers.added["mine"]
    assert backend is None
    assert (entry.base_url, entry.api_key, entry.api) == ("http://y", "$K", "openai-completions")
    assert entry.headers == {"X-My_Head": "1"}
    model = make_model("mine", entry, entry.models[0], None)
    assert (model.id, model.context_window, model.compat) == ("m1", 10, {"a_b": 1})


async def test_a_provider_that_the_host_refuses_is_reported(tmp_path: Path) -> None:
    bench = await _bench(tmp_path, "api.provider('half', models=[{'id': 'x'}])")
    ((_, event, text),) = bench.reports
    assert event == "register_provider"
    assert 'no "api" specified' in text


async def test_an_unknown_option_of_a_provider_is_an_error(tmp_path: Path) -> None:
    (error,) = await Bench(tmp_path).load("def extension(api): api.provider('x', base='y')")
    assert error.error == "provider x: unknown option base (x0.py, line 1)"


BACKEND = """
@api.provider
class Mine:
    id = "mine"
    def models(self):
        return ["plain", {"id": "rich", "name": "Rich", "reasoning": True}]
    async def stream(self, model, context, options):
%s
"""


async def _backend(folder: Path, *lines: str) -> tuple[Bench, Model]:
    bench = await _bench(folder, BACKEND % "\n".join(f"        {line}" for line in lines))
    entry, _ = bench.host.providers.added["mine"]
    model = make_model("mine", entry, entry.models[0], None)
    bench.host.registry.register([model], Access(key="k"))
    bench.host.model = model
    return bench, model


async def test_a_backend_of_an_extension_answers(tmp_path: Path) -> None:
    bench, model = await _backend(
        tmp_path,
        "yield {'type': 'start'}",
        "yield {'type': 'thinking_start', 'content_index': 0}",
        "yield {'type': 'thinking_delta', 'content_index': 0, 'delta': 'hm'}",
        "yield {'type': 'thinking_end', 'content_index': 0}",
        "yield {'type': 'text_delta', 'content_index': 1, 'delta': context.system_prompt}",
        "yield {'type': 'text_delta', 'content_index': 1, 'delta': ' ' + options.api_key}",
        "yield {'type': 'toolcall_end', 'content_index': 2,",
        "       'tool_call': {'id': 'c', 'name': 'read', 'arguments': {'a_b': 1}}}",
        "yield {'type': 'done', 'usage': {'input': 3, 'cache_read': 4}}",
    )
    assert model.api == "extension:mine"
    request = await bench.host.request(model)
    draft = Draft(model)
    async for events in request.provider.stream(request, draft):
        list(events)
    message = draft.finish()
    assert [type(block).__name__ for block in message.content] == ["Thinking", "Text", "ToolCall"]
    assert text_of(message.content) == " k"
    assert message.tool_calls[0].arguments == {"a_b": 1}
    assert (message.stop_reason, message.usage.input, message.usage.cache_read) == ("toolUse", 3, 4)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("yield 'a'; raise RuntimeError('line broke')", "line broke"),
        ("yield {'type': 'error', 'error': {'error_message': 'overloaded'}}", "overloaded"),
        ("yield {'type': 'odd'}", "unknown stream event 'odd'"),
        ("yield 3", "a stream yields dicts or text, not int"),
    ],
)
async def test_a_failing_backend_is_a_failing_provider(
    line: str, text: str, tmp_path: Path
) -> None:
    bench, model = await _backend(tmp_path, line)
    request = await bench.host.request(model)
    with pytest.raises(ProviderError, match=text):
        async for events in request.provider.stream(request, Draft(model)):
            list(events)


async def test_extensions_may_ask_a_model_themselves(tmp_path: Path) -> None:
    bench, _ = await _backend(
        tmp_path,
        "yield 'You said '",
        "yield context.messages[0].content[0].text",
        "yield {'type': 'done'}",
    )
    ask = """
def extension(api):
    @api.command("ask")
    async def ask(args, ctx):
        whole = await ctx.models.complete(args, system="s")
        pieces = [e.delta async for e in ctx.models.stream(args) if hasattr(e, "delta")]
        known = [m.id for m in ctx.models.available()]
        raise RuntimeError(f"{whole.content[0].text}|{''.join(pieces)}|{known}")
"""
    path = tmp_path / "more"
    path.mkdir()
    bench.folder = path
    await bench.load(ask)
    await _call(bench, "/ask hi")
    assert bench.told() == [("command", "You said hi|You said hi|['plain']")]


def test_the_public_face_names_only_what_there_is() -> None:
    import ludolf.ext

    assert all(hasattr(ludolf.ext, name) for name in ludolf.ext.__all__)
    payload_names = {hook.__name__ for hook in payloads.Payload.__subclasses__()}
    assert payload_names <= set(ludolf.ext.__all__)
