"""Final answer as JSON that matches a schema; the model returns it by calling a tool.

Install: copy it to ~/.pi/agent/extensions/, then
    ludolf --schema person.json --answer answer.json -p "Who wrote this file?"

`--schema` is a file with a JSON Schema of type object; without it the extension does nothing. The
agent validates the arguments, so the answer always matches the schema. Hosts find it in the
`details` of the tool's result and in a `structured-output` entry of the session; `--answer` also
writes it to a file. The tool call ends the run. A model that omits the call is reminded twice.
"""

import json
from pathlib import Path
from typing import Any

from ludolf.ext import AgentBeforeSettle, Api, BoundaryAnswer, Context, ToolResult

NAME = "final_answer"
ENTRY = "structured-output"
REMINDERS = 2
RULE = f"When you are done, call {NAME} with the answer. Do not write it as text."


def extension(api: Api) -> None:
    api.flag("schema", type=str, description="File with the JSON Schema of the final answer")
    api.flag("answer", type=str, description="File to write the final answer to")
    schema = api.get_flag("schema")
    if schema:
        demand(api, json.loads(Path(str(schema)).read_text()))


def demand(api: Api, schema: dict[str, Any]) -> None:
    answered, reminders = False, 0

    @api.tool(
        name=NAME,
        description="Return the final answer. Ends your work.",
        parameters=schema,
        prompt_snippet="Return the final answer",
        prompt_guidelines=[RULE],
    )
    def final_answer(**answer: Any) -> ToolResult:
        nonlocal answered
        answered = True
        api.append_entry(ENTRY, answer)
        if target := api.get_flag("answer"):
            Path(str(target)).write_text(json.dumps(answer, indent=2) + "\n")
        return ToolResult("Answer received.", details=answer, terminate=True)

    @api.on("agent_before_settle")
    def remind(event: AgentBeforeSettle, ctx: Context) -> BoundaryAnswer | None:
        nonlocal answered, reminders
        if answered or event.outcome != "completed" or reminders == REMINDERS:
            answered, reminders = False, 0
            return None
        reminders += 1
        note = {"type": "custom_message", "custom_type": ENTRY, "content": RULE, "display": False}
        return {"entries": [note], "continue": True}
