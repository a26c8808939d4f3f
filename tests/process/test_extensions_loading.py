"""How extensions are found and loaded: order, conflicts, errors, flags, reload, the end."""

import time
from pathlib import Path

import pytest

from ludolf.client import Client
from tests.process.extending import errors, lay, notes, told, write
from tests.process.harness import Lab, messages, only
from tests.process.script import Gate, answer, say
from tests.script_host import needs_node

HELLO = """
def extension(api):
    @api.command("hello", description="Says hello")
    async def hello(args, ctx):
        ctx.ui.notify(__file__.rsplit("/", 1)[-1])
"""


async def _names(client: Client) -> list[str]:
    return [one["name"] for one in (await client.ask("get_commands"))["commands"]]


# ---------------------------------------------------------------- where they are


async def test_files_packages_paths_and_settings_are_loaded_in_order(lab: Lab) -> None:
    lay(lab, HELLO, "b.py")
    lay(lab, HELLO, "a.py")
    lay(lab, "from .words import WORD\n" + HELLO, "pack/__init__.py")
    lay(lab, 'WORD = "hello"\n', "pack/words.py")
    lay(lab, HELLO, "plain/extension.py")
    lay(lab, "raise RuntimeError", "_private.py")
    listed = write(lab.root / "listed.py", HELLO)
    given = write(lab.root / "given.py", HELLO)
    lab.settings(extensions=[str(listed)])
    async with lab.client("-e", str(given)) as client:
        for name in await _names(client):
            await client.ask("prompt", message=f"/{name}")
    found = notes(lab)
    assert found[0] == "given.py"
    assert sorted(found) == sorted(
        ["given.py", "listed.py", "a.py", "b.py", "__init__.py", "extension.py"]
    )
    assert found.index("a.py") < found.index("b.py")


async def test_no_extensions_keeps_those_that_were_named(lab: Lab) -> None:
    lay(lab, HELLO, "mine.py")
    given = write(lab.root / "given.py", HELLO)
    async with lab.client("--no-extensions", "-e", str(given)) as client:
        assert await _names(client) == ["hello"]
        await client.ask("prompt", message="/hello")
    assert notes(lab) == ["given.py"]


async def test_the_same_file_is_loaded_once(lab: Lab) -> None:
    path = lay(lab, HELLO, "mine.py")
    (path.parent / "link.py").symlink_to(path)
    async with lab.client("-e", str(path)) as client:
        assert await _names(client) == ["hello"]


async def test_commands_of_one_name_are_numbered(lab: Lab) -> None:
    first, second = lay(lab, HELLO, "a.py"), lay(lab, HELLO, "b.py")
    async with lab.client() as client:
        commands = (await client.ask("get_commands"))["commands"]
        await client.ask("prompt", message="/hello:2 and more")
        await client.ask("prompt", message="/hello:1")
    assert [(one["name"], one["path"]) for one in commands] == [
        ("hello:1", str(first)),
        ("hello:2", str(second)),
    ]
    assert notes(lab) == ["b.py", "a.py"]


async def test_an_async_factory_is_waited_for(lab: Lab) -> None:
    lay(
        lab,
        """
        import asyncio

        async def extension(api):
            await asyncio.sleep(0)
            api.command("late", lambda args, ctx: ctx.ui.notify("here"))
        """,
    )
    async with lab.client() as client:
        await client.ask("prompt", message="/late")
    assert notes(lab) == ["here"]


# ---------------------------------------------------------------- what goes wrong

BROKEN = {
    "syntax.py": ("def extension(api): this is no program", "invalid syntax"),
    "raising.py": ("raise RuntimeError('not today')", "not today (raising.py, line 1)"),
    "empty.py": ("", "does not export a valid factory function"),
    "needs.py": (
        '# /// script\n# dependencies = ["no-such-package-here>=1"]\n# ///\n',
        "Missing packages: no-such-package-here>=1. Install them with:",
    ),
    "event.py": ('def extension(api):\n    api.on("tool_cal", print)', 'mean "tool_call"?'),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_extension_is_reported_and_left_out(lab: Lab, name: str) -> None:
    path = lay(lab, BROKEN[name][0], name)
    lay(lab, HELLO, "zz_fine.py")
    async with lab.client() as client:
        assert await _names(client) == ["hello"]
    (error,) = [one for one in told(lab) if one["type"] == "extension_error"]
    assert (error["extensionPath"], error["event"]) == (str(path), "load")
    assert BROKEN[name][1] in error["error"]
    assert f'Warning: Failed to load extension "{path}": ' in client.process.stderr


def test_a_broken_extension_is_reported_once_in_print_mode(lab: Lab) -> None:
    path = lay(lab, "def extension(:", "broken.py")
    lab.server.add(answer("Fine."))
    done = lab.run("-p", "Hi")
    assert done.code == 0
    assert done.stderr.count(str(path)) == 1


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_extension_that_was_named_ends_the_start(lab: Lab, name: str) -> None:
    path = write(lab.root / name, BROKEN[name][0])
    done = lab.run("--mode", "rpc", "-e", str(path))
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith(f'Error: Failed to load extension "{path}": ')
    assert BROKEN[name][1] in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_path_that_does_not_exist_ends_the_start(lab: Lab) -> None:
    done = lab.run("-e", "nowhere.py", "-p", "Hi")
    assert (done.code, done.stdout) == (1, b"")
    assert "Extension path does not exist: nowhere.py" in done.stderr
    assert len(done.stderr.splitlines()) == 1


async def test_what_a_failed_factory_registered_is_gone(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            api.on("input", lambda event, ctx: {"action": "handled"})
            api.command("ghost", print)
            raise RuntimeError("changed my mind")
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        assert await _names(client) == []
        await client.prompt_and_collect("Hi")
    assert len(messages(lab.entries)) == 2


async def test_of_two_tools_of_one_name_the_first_stays(lab: Lab) -> None:
    tool = '''
    def extension(api):
        @api.tool
        async def count():
            """By {0}."""
            return "{0}"
    '''
    first, second = lay(lab, tool.format("a"), "a.py"), lay(lab, tool.format("b"), "b.py")
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.prompt_and_collect("Hi")
    (error,) = [one for one in told(lab) if one["type"] == "extension_error"]
    assert error["extensionPath"] == str(second)
    assert error["error"] == f'Tool "count" conflicts with {first}'
    described = {t["name"]: t["description"] for t in lab.server.requests[0].body["tools"]}
    assert described["count"] == "By a."


async def test_without_node_each_script_is_reported_with_what_to_install(lab: Lab) -> None:
    lab.settings(nodeCommand="/nowhere/node")
    paths = [lay(lab, "export default () => {}", name) for name in ("theirs.ts", "yours.js")]
    async with lab.client() as client:
        await client.ask("get_commands")
    for path in paths:
        assert f'Failed to load extension "{path}": nodeCommand is' in client.process.stderr
    assert 'pip install "ludolf[pi]"' in client.process.stderr
    assert [event for event, _ in errors(told(lab))] == ["load", "load"]


async def test_a_host_that_names_a_script_works_without_node(lab: Lab) -> None:
    lab.settings(nodeCommand="/nowhere/node")
    path = write(lab.work / "bridge.ts", "export default function () {}")
    lab.server.add(answer("Hello."))
    async with lab.client("-e", str(path)) as client:
        await client.prompt_and_collect("Hi")
    ((event, text),) = errors(told(lab))
    assert (event, "Node 22.12 or newer" in text) == ("load", True)
    assert f'Failed to load extension "{path}"' in client.process.stderr


def test_a_script_named_by_hand_ends_the_start_without_node(lab: Lab) -> None:
    lab.settings(nodeCommand="/nowhere/node")
    path = write(lab.work / "bridge.ts", "export default function () {}")
    done = lab.run("-e", str(path), "-p", "Hi")
    assert done.code == 1
    assert f'Failed to load extension "{path}"' in done.stderr


async def test_a_command_of_a_named_extension_has_the_source_that_pi_sends(lab: Lab) -> None:
    path = write(
        lab.work / "named.py",
        "def extension(api):\n    api.command('hi')(lambda args, ctx: None)\n",
    )
    async with lab.client("-e", str(path)) as client:
        (command,) = (await client.ask("get_commands"))["commands"]
    assert command["sourceInfo"] == {
        "path": str(path),
        "source": "cli",
        "scope": "temporary",
        "origin": "top-level",
    }


def test_notices_of_a_command_are_printed_in_print_mode(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.command("hello")
            async def hello(args, ctx):
                ctx.ui.notify(f"Hello, {args}.")
                ctx.ui.notify("Take care.", "warning")
        """,
    )
    done = lab.run("-p", "/hello Ada")
    assert "Hello, Ada.\nWarning: Take care.\n" in done.stderr
    assert done.stdout == b""


# ---------------------------------------------------------------- flags

FLAGS = """
import sys

def extension(api):
    api.flag("strict", type=bool, default=False)
    api.flag("tone", type=str, default="kind")

    @api.on("session_start")
    def start(event, ctx):
        sys.stderr.write(f"{api.get_flag('strict')} {api.get_flag('tone')} {api.get_flag('x')}")
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "False kind None"),
        (("--strict",), "True kind None"),
        (("--tone", "rude"), "False rude None"),
        (("--tone=rude", "--strict"), "True rude None"),
    ],
)
def test_flags_of_extensions_are_understood(lab: Lab, words: tuple[str, ...], said: str) -> None:
    lay(lab, FLAGS)
    done = lab.run("--mode", "rpc", *words)
    assert (done.code, done.stderr) == (0, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--unknown",), "Unknown option: --unknown"),
        (("--tone",), 'Extension flag "--tone" requires a value'),
    ],
)
def test_wrong_flags_end_the_start(lab: Lab, words: tuple[str, ...], said: str) -> None:
    lay(lab, FLAGS)
    done = lab.run("--mode", "rpc", *words)
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr == f"Error: {said}\n"


# ---------------------------------------------------------------- reload and the end

COUNTING = """
count = 0

def extension(api):
    @api.command("count")
    async def run(args, ctx):
        global count
        count += 1
        ctx.ui.notify(f"{WORD} {count}")

    @api.on("session_shutdown")
    def stop(event, ctx):
        ctx.ui.notify(f"{event.reason} {count}")
"""


async def test_reload_reads_the_file_anew_and_gives_fresh_state(lab: Lab) -> None:
    path = lay(lab, 'WORD = "old"\n' + COUNTING)
    async with lab.client() as client:
        await client.ask("prompt", message="/count")
        await client.ask("prompt", message="/count")
        path.write_text('WORD = "new"\n' + COUNTING)
        await client.ask("reload")
        await client.ask("prompt", message="/count")
    assert notes(lab) == ["old 1", "old 2", "reload 2", "new 1"]


async def test_a_new_session_gives_fresh_state(lab: Lab) -> None:
    lay(lab, 'WORD = "w"\n' + COUNTING)
    async with lab.client() as client:
        await client.ask("prompt", message="/count")
        await client.ask("new_session")
        await client.ask("prompt", message="/count")
    assert notes(lab) == ["w 1", "new 1", "w 1"]


async def test_a_command_can_change_the_session_and_go_on_there(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.command("fresh")
            async def fresh(args, ctx):
                async def go_on(ctx):
                    ctx.ui.notify(ctx.session.id)
                    await ctx.send_user_message("In the new session")
                    ctx.ui.notify(str(len(ctx.session.messages())))
                await ctx.new_session(with_session=go_on)
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.ask("prompt", message="/fresh")
        state = await client.ask("get_state")
    assert notes(lab) == [state["sessionId"], "2"]


async def test_an_extension_can_reload(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.command("again")
            async def again(args, ctx):
                await ctx.reload()

            @api.on("session_start")
            def start(event, ctx):
                ctx.ui.notify(event.reason)
        """,
    )
    async with lab.client() as client:
        assert (await client.request("prompt", message="/again"))["success"]
    assert notes(lab) == ["startup", "reload"]


QUIT = """
def extension(api):
    @api.command("quit")
    async def quit(args, ctx):
        ctx.shutdown()
"""


async def test_shutdown_ends_the_program_after_the_reply(lab: Lab) -> None:
    lay(lab, QUIT)
    async with lab.client() as client:
        assert (await client.request("prompt", message="/quit"))["success"]
        assert await client.process.wait() == 0


async def test_shutdown_waits_for_the_run(lab: Lab) -> None:
    lay(lab, QUIT)
    gate = Gate()
    lab.server.add(answer(say("Half, ", gate, "whole.")))
    async with lab.client() as client:
        await client.ask("prompt", message="Hi")
        await client.wait_for("message_update")
        assert (await client.request("prompt", message="/quit"))["success"]
        gate.open()
        await client.wait_for("agent_settled")
        assert await client.process.wait() == 0
    assert messages(lab.entries)[-1]["stopReason"] == "stop"


async def test_a_hanging_goodbye_does_not_keep_the_program(lab: Lab) -> None:
    lay(
        lab,
        """
        import asyncio

        def extension(api):
            @api.on("session_shutdown")
            async def stop(event, ctx):
                await asyncio.sleep(3600)
        """,
    )
    async with lab.client() as client:
        await client.ask("get_state")
        started = time.monotonic()
        assert await client.close() == 0
        assert time.monotonic() - started < 12


async def test_installed_packages_bring_extensions(lab: Lab) -> None:
    site = lab.root / "site"
    write(site / "greeter" / "__init__.py", HELLO)
    info = site / "greeter-1.0.dist-info"
    write(info / "METADATA", "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n")
    write(info / "entry_points.txt", "[ludolf.extensions]\ngreeter = greeter\n")
    async with lab.client(PYTHONPATH=_also(lab, site)) as client:
        assert await _names(client) == ["hello"]
    assert only(told(lab), "extension_error") == []


def _also(lab: Lab, folder: Path) -> str:
    return ":".join(filter(None, (str(folder), lab.env.get("PYTHONPATH"))))


@needs_node
async def test_hosts_see_a_folder_of_the_command_line_as_in_pi(lab: Lab) -> None:
    text = 'export default (pi) => pi.registerCommand("{}", {{ handler: async () => {{}} }})'
    for name, path in (
        ("a", "plain/index.ts"),
        ("b", "named/main.ts"),
        ("c", "kit/extensions/x.ts"),
    ):
        write(lab.work / path, text.format(name))
    write(lab.work / "named/package.json", '{"pi": {"extensions": ["main.ts"]}}')
    async with lab.client("-e", "./plain", "-e", "./named", "-e", "./kit") as client:
        found = (await client.ask("get_commands"))["commands"]
    places = {one["name"]: one["sourceInfo"].pop("path") for one in found}
    assert places == {
        "a": str(lab.work / "plain"),
        "b": str(lab.work / "named/main.ts"),
        "c": str(lab.work / "kit/extensions/x.ts"),
    }
    info = {"source": "cli", "scope": "temporary", "origin": "top-level"}
    assert [one["sourceInfo"] for one in found] == [info] * 3
