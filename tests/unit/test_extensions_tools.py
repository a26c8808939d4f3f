"""A function of an extension works as a tool: arguments, progress, results, failures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from ludolf.agent import tool
from ludolf.agent.scope import Scope
from ludolf.agent.tool import Tool, ToolContext, ToolOutput, text_output
from ludolf.ai.messages import Image, Text, Usage
from ludolf.ai.sampling import GrammarSampling, Sampling, StrictSampling
from ludolf.extensions.host import Signal
from ludolf.functions.results import ToolError
from ludolf.tools.schema import check_arguments
from tests.extension_host import Bench


class Call:
    """One call of a tool, with the updates that were told of it."""

    def __init__(self, folder: Path) -> None:
        self.told: list[ToolOutput] = []
        self.reported = asyncio.Event()
        self.context = ToolContext(call_id="c1", cwd=folder, report=self._report)

    async def _report(self, output: ToolOutput) -> None:
        await asyncio.sleep(0)
        self.told.append(output)
        self.reported.set()

    def texts(self) -> list[str]:
        return [block.text for out in self.told for block in out.content if isinstance(block, Text)]


async def _tool(folder: Path, body: str, bench: Bench | None = None) -> Tool:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"from ludolf.ext import ToolError, ToolResult\ndef extension(api):\n{lines}\n"
    bench = bench or Bench(folder)
    assert await bench.load(source) == ()
    (only,) = bench.extensions.tools().values()
    return only


async def _run(folder: Path, body: str, **args: Any) -> ToolOutput:
    made = await _tool(folder, body)
    checked = check_arguments(made.name, made.parameters, await made.prepare(args))
    return await made.execute(checked, Call(folder).context)


# ---------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ("'text'", text_output("text")),
        ("None", ToolOutput(content=())),
        ("3", text_output("3")),
        ("{'a_b': [1, None]}", text_output('{"a_b":[1,null]}')),
        (
            "['a', {'type': 'text', 'text': 'b'}]",
            ToolOutput(content=(Text(text="a"), Text(text="b"))),
        ),
        (
            "{'type': 'image', 'data': 'AA==', 'mime_type': 'image/png'}",
            ToolOutput(content=(Image(data="AA==", mime_type="image/png"),)),
        ),
        ("ToolResult('x', details={'at': 1})", text_output("x", {"at": 1})),
        ("ToolResult('x', terminate=True)", ToolOutput(content=(Text(text="x"),), ends_run=True)),
        (
            "{'content': 'x', 'details': None, 'usage': {'cache_read': 2}}",
            ToolOutput(content=(Text(text="x"),), details=None, usage=Usage(cache_read=2)),
        ),
    ],
)
async def test_what_a_function_returns(result: str, output: ToolOutput, tmp_path: Path) -> None:
    assert await _run(tmp_path, f"@api.tool\nasync def t(): return {result}") == output


@pytest.mark.parametrize(
    ("raised", "text", "details"),
    [
        ("RuntimeError('it failed')", "it failed", {}),
        ("KeyError('k')", "'k'", {}),
        ("SystemExit(2)", "tried to exit the program (code 2)", {}),
        ("ToolError('no', details={'why': 1})", "no", {"why": 1}),
    ],
)
@pytest.mark.parametrize("form", ["def", "async def"])
async def test_what_a_function_raises_is_for_the_model(
    form: str, raised: str, text: str, details: Any, tmp_path: Path
) -> None:
    with pytest.raises(tool.ToolFailure) as error:
        await _run(tmp_path, f"@api.tool\n{form} t(): raise {raised}")
    assert str(error.value) == text
    assert isinstance(error.value, ToolError)
    assert error.value.details == details


async def test_a_result_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(tool.ToolFailure, match="object is not a valid result"):
        await _run(tmp_path, "@api.tool\nasync def t(): return object()")


# ---------------------------------------------------------------- arguments


async def test_arguments_arrive_as_the_types_that_the_function_names(tmp_path: Path) -> None:
    body = """
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict
@dataclass
class Point:
    x: int
    y: int = 5
class Named(TypedDict):
    name: str
@api.tool
def t(at: Point, where: Path, how: Literal["a"], many: list[Point], named: Named, n: float = 1):
    return f"{at} {where!r} {how} {many[0].y} {named['name']} {n}"
"""
    output = await _run(
        tmp_path, body, at={"x": 1}, where="/a", how="a", many=[{"x": 2}], named={"name": "z"}
    )
    (block,) = output.content
    assert isinstance(block, Text)
    assert block.text.endswith("Point(x=1, y=5) PosixPath('/a') a 5 z 1")


async def test_a_given_schema_may_be_taken_as_one_dict_or_by_name(tmp_path: Path) -> None:
    schema = "{'type': 'object', 'properties': {'a': {}, 'b': {}}}"
    whole = f"@api.tool(parameters={schema})\nasync def t(params, ctx): return dict(params)"
    named = f"@api.tool(parameters={schema})\nasync def t(a, b=0): return [str(a), str(b)]"
    open_ended = f"@api.tool(parameters={schema})\nasync def t(**rest): return rest"
    (tmp_path / "two").mkdir()
    (tmp_path / "three").mkdir()
    assert await _run(tmp_path, whole, a=1) == text_output('{"a":1}')
    assert await _run(tmp_path / "two", named, a=1) == ToolOutput(
        content=(Text(text="1"), Text(text="0"))
    )
    assert await _run(tmp_path / "three", open_ended, a=1, b=2) == text_output('{"a":1,"b":2}')


async def test_arguments_may_be_prepared_before_they_are_checked(tmp_path: Path) -> None:
    body = (
        "@api.tool(prepare_arguments=lambda args: {'a_b': int(args['old'])})\n"
        "async def t(a_b: int): return str(a_b)"
    )
    assert await _run(tmp_path, body, old="7") == text_output("7")
    made = await _tool(tmp_path / "..", "@api.tool(prepare_arguments=len)\ndef t(): ...")
    with pytest.raises(tool.ToolFailure, match="prepare_arguments: Expected `object`"):
        await made.prepare({})


async def test_the_preparation_of_arguments_may_take_time(tmp_path: Path) -> None:
    body = (
        "async def prepare(args):\n"
        "    if 'old' not in args: raise KeyError('old')\n"
        "    return {'a': int(args['old'])}\n"
        "@api.tool(prepare_arguments=prepare)\n"
        "async def t(a: int): return str(a)"
    )
    made = await _tool(tmp_path, body)
    assert await made.prepare({"old": "7"}) == {"a": 7}
    with pytest.raises(tool.ToolFailure, match="old"):
        await made.prepare({})


@pytest.mark.parametrize(
    ("options", "sampling"),
    [
        ("", None),
        ("strict='require'", StrictSampling(strict="require")),
        ("grammar={'openai_regex': 'a+'}", GrammarSampling(variants={"openai_regex": "a+"})),
    ],
)
async def test_a_tool_may_ask_how_its_arguments_are_sampled(
    tmp_path: Path, options: str, sampling: Sampling | None
) -> None:
    made = await _tool(tmp_path, f"@api.tool({options})\ndef t(a: str): ...")
    assert made.sampling == sampling


@pytest.mark.parametrize(
    "options", ["strict='often'", "grammar={}", "grammar={'x': 'y'}", "strict='prefer', grammar={}"]
)
async def test_an_odd_wish_for_sampling_is_refused(tmp_path: Path, options: str) -> None:
    source = f"def extension(api):\n    @api.tool({options})\n    def t(a: str): ...\n"
    (problem,) = await Bench(tmp_path).load(source)
    assert "strict" in str(problem) or "grammar" in str(problem)


async def test_a_function_gets_what_it_asks_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.host.signal = Signal(Scope())
    body = (
        "@api.tool\nasync def t(*, ctx, call_id, signal):"
        " return f'{call_id} {ctx.cwd.name} {signal.aborted}'"
    )
    made = await _tool(tmp_path, body, bench)
    assert await made.execute({}, Call(tmp_path).context) == text_output(
        f"c1 {tmp_path.name} False"
    )


async def test_the_description_and_the_rest_come_from_the_function_and_the_options(
    tmp_path: Path,
) -> None:
    body = (
        "@api.tool(execution='sequential', prompt_snippet='s', prompt_guidelines=['g'])\n"
        "def look_up():\n '''Look it up.\n\n Returns:\n  text\n '''"
    )
    made = await _tool(tmp_path, body)
    assert (made.name, made.label, made.description) == ("look_up", "Look up", "Look it up.")
    assert (made.alone, made.snippet, made.guidelines) == (True, "s", ("g",))


# ---------------------------------------------------------------- progress


@pytest.mark.parametrize("form", ["def", "async def"])
async def test_updates_are_told_in_order_and_before_the_end(form: str, tmp_path: Path) -> None:
    body = (
        f"@api.tool\n{form} t(*, update):\n"
        " for n in range(3): update(ToolResult(str(n), details={'at': n}))\n return 'end'"
    )
    made, call = await _tool(tmp_path, body), Call(tmp_path)
    assert await made.execute({}, call.context) == text_output("end")
    assert call.texts() == ["0", "1", "2"]
    assert [output.details for output in call.told] == [{"at": 0}, {"at": 1}, {"at": 2}]


async def test_the_last_update_is_told_also_when_the_tool_fails(tmp_path: Path) -> None:
    made = await _tool(tmp_path, "@api.tool\nasync def t(*, update): update('half'); 1 / 0")
    call = Call(tmp_path)
    with pytest.raises(tool.ToolFailure):
        await made.execute({}, call.context)
    assert call.texts() == ["half"]
    assert call.told[0].details is UNSET


async def test_an_update_after_the_end_is_dropped(tmp_path: Path) -> None:
    body = "kept = []\n@api.tool\nasync def t(*, update): kept.append(update)\napi.kept = kept"
    bench = Bench(tmp_path)
    made, call = await _tool(tmp_path, body.replace("api.kept = kept", ""), bench), Call(tmp_path)
    await made.execute({}, call.context)
    kept = made.function.__closure__[0].cell_contents  # type: ignore[attr-defined]  # the test's own
    kept[0]("late")
    await asyncio.sleep(0)
    assert call.told == []


async def test_cancelling_ends_a_tool_and_leaves_a_blocked_thread_behind(tmp_path: Path) -> None:
    body = (
        "import threading\n@api.tool\ndef t(*, update):\n update('on')\n threading.Event().wait()"
    )
    made, call = await _tool(tmp_path, body), Call(tmp_path)

    async def cancel_once_it_runs(task: "asyncio.Task[Any]") -> None:
        await call.reported.wait()
        task.cancel()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.execute({}, call.context))
        group.create_task(cancel_once_it_runs(running))
    assert running.cancelled()
