"""The final answer as JSON that fits a schema: the model gives it by calling a tool, which ends
the run.

Install: copy it to ~/.pi/agent/extensions/, then
    ludolf --schema person.json --answer answer.json -p "Who wrote this file?"

`--schema` is a file with a JSON Schema of type object; without it nothing happens. Arguments that
do not fit are sent back to the model by the agent itself, so what arrives is always valid. Hosts
find it in the `details` of the tool's result and in a `structured-output` entry of the session;
`--answer` also writes it to a file. A model that forgets is reminded twice.
"""

import json
from pathlib import Path
from typing import Any

from ludolf.ext import AgentBeforeSettle, Api, BoundaryAnswer, Context, ToolResult

NAME = "final_answer"
ENTRY = "structured-output"
REMINDERS = 2
RULE = f"When you are done, call {NAME} with the answer, and do not give it as text."


def extension(api: Api) -> None:
    api.flag("schema", type=str, description="File with the JSON Schema of the final answer")
    api.flag("answer", type=str, description="File to write the final answer to")
    schema = api.get_flag("schema")
    if schema:
        demand(api, json.loads(Path(str(schema)).read_text()))


def demand(api: Api, schema: dict[str, Any]) -> None:
    given, reminders = False, 0

    @api.tool(
        name=NAME,
        description="Give the final answer. Ends your work.",
        parameters=schema,
        prompt_snippet="Give the final answer",
        prompt_guidelines=[RULE],
    )
    def final_answer(**answer: Any) -> ToolResult:
        nonlocal given
        given = True
        api.append_entry(ENTRY, answer)
        if target := api.get_flag("answer"):
            Path(str(target)).write_text(json.dumps(answer, indent=2) + "\n")
        return ToolResult("The answer was taken.", details=answer, terminate=True)

    @api.on("agent_before_settle")
    def remind(event: AgentBeforeSettle, ctx: Context) -> BoundaryAnswer | None:
        nonlocal given, reminders
        if given or event.outcome != "completed" or reminders == REMINDERS:
            given, reminders = False, 0
            return None
        reminders += 1
        note = {"type": "custom_message", "custom_type": ENTRY, "content": RULE, "display": False}
        return {"entries": [note], "continue": True}
