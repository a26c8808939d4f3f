"""A server of the Model Context Protocol with 200 tools, run as a program over pipes.

Only the tools with an answer of their own say something that a task needs.
"""

import json
import sys
from typing import Any

_VERBS = ("list", "create", "read", "update", "delete", "archive", "export", "import", "copy")
_NOUNS = ("invoice", "contact", "ticket", "meeting", "project", "contract", "asset", "team")
_PLACES = ("crm", "shop", "desk")
COUNT = 200
CITY = {"type": "string", "description": "Name of the city"}
WEATHER = "weather_in_city"
FORECAST = "Hailstorm, 7 degrees"


def definition(name: str, description: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


def definitions() -> list[dict[str, Any]]:
    """Return the tool for the weather among others about the work in an office."""
    dull = [
        definition(f"{verb}_{noun}_in_{place}", f"{verb.title()} one {noun} in the {place} system.")
        for place in _PLACES
        for noun in _NOUNS
        for verb in _VERBS
    ][: COUNT - 1]
    weather = definition(WEATHER, "Get the current weather in a city.", city=CITY)
    return [*dull[:120], weather, *dull[120:]]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "office", "version": "1"}
        declared = {"capabilities": {"tools": {}}, "serverInfo": info}
        about = "Weather, invoices, contacts, tickets, meetings, projects and contracts."
        return {"protocolVersion": "2025-11-25", "instructions": about, **declared}
    if method == "tools/list":
        return {"tools": definitions()}
    if method == "tools/call":
        text = FORECAST if params["name"] == WEATHER else "Done."
        return {"content": [{"type": "text", "text": text}]}
    return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        error = {"code": -32601, "message": "Method not found"}
        body = {"error": error} if result is None else {"result": result}
        frame = {"jsonrpc": "2.0", "id": message["id"], **body}
        sys.stdout.write(json.dumps(frame) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
