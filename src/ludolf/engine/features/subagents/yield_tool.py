"""The tool by which a subagent submits its result and ends."""

from collections.abc import Callable, Mapping
from typing import Any

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput
from ludolf.ai.messages import Text
from ludolf.base import dumps
from ludolf.engine.features.subagents.task import SubagentOutcome

NAME = "yield"


class YieldTool(ToolDefaults):
    """`outcome` is None until the subagent has submitted a result."""

    name = NAME
    label = NAME
    description = (
        "Hand over the result of your assignment and end. Call it exactly once, as the last thing "
        "you do: with `result.data` if the work is done, with `result.error` if it cannot be done. "
        "Only what is in here reaches the one who asked; nothing else that you wrote does."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "result": {
                "type": "object",
                "description": "Either data or error.",
                "properties": {
                    "data": {"description": "The result: a text, or JSON where it was asked for."},
                    "error": {"type": "string", "description": "Why the work cannot be done."},
                },
            }
        },
        "required": ["result"],
    }
    read_only = True
    snippet = "Hand over the result of the assignment and end"
    guidelines = ("End by calling yield with the result; it is the only thing that is passed on.",)

    def __init__(self, when_given: Callable[[], None]) -> None:
        self._when_given = when_given
        self.outcome: SubagentOutcome | None = None

    def prepare(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if "result" not in args and ("data" in args or "error" in args):
            return {"result": dict(args)}
        result = args.get("result")
        return {"result": {"data": result}} if isinstance(result, str) else args

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        result = args["result"]
        error, data = result.get("error"), result.get("data")
        if error is None and data is None:
            raise ToolFailure("The result must contain either data or error.")
        self._when_given()
        if error is not None:
            self.outcome = SubagentOutcome(status="failed", text=_text(data), error=str(error))
            return _ending(f"Task aborted: {error}", {"status": "aborted", "error": str(error)})
        self.outcome = SubagentOutcome(status="completed", text=_text(data))
        return _ending("Result submitted.", {"data": data, "status": "success"})


def _ending(text: str, details: dict[str, Any]) -> ToolOutput:
    return ToolOutput(content=(Text(text=text),), details=details, ends_run=True)


def _text(data: Any) -> str:
    if data is None:
        return ""
    return data if isinstance(data, str) else dumps(data).decode()
