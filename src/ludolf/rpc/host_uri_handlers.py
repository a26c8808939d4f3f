"""Commands of documents that a host lends: the schemes of their addresses, and what it found."""

import re
from typing import Any

from ludolf.base import CommandError
from ludolf.engine.host.host_uris import Found, Scheme
from ludolf.protocol.commands import HostUriResult
from ludolf.rpc.call import Call, Data, Handler, Result, Silence

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")


async def _set_host_uri_schemes(call: Call) -> Result:
    schemes = [_scheme(item) for item in call.command.schemes]
    names = call.engine.host_uris.replace(schemes)
    call.engine.resources.invalidate_prompt()
    return Data({"schemes": names})


def _scheme(item: Any) -> Scheme:
    fields = item if isinstance(item, dict) else {}
    given = fields.get("scheme")
    name = given.strip().lower() if isinstance(given, str) else ""
    if not name:
        raise CommandError("Host URI scheme must be a non-empty string")
    if not _SCHEME.fullmatch(name):
        raise CommandError(f"Host URI scheme contains invalid characters: {given}")
    limit = fields.get("timeoutMs")
    return Scheme(
        name=name,
        description=" ".join(_text(fields, "description").split()),
        writable=fields.get("writable") is True,
        immutable=fields.get("immutable") is True,
        timeout_ms=limit if isinstance(limit, int | float) and limit > 0 else None,
    )


async def _host_uri_result(call: Call) -> Result:
    command: HostUriResult = call.command
    if not isinstance(command.id, str):
        raise CommandError(f"Unknown command: {call.head.type}")
    fields = {"error": command.error, "content": command.content, "type": command.content_type}
    if command.is_error is True:
        error = _text(fields, "error") or _text(fields, "content")
        call.engine.host_uris.failed(command.id, error)
        return Silence()
    notes = command.notes if isinstance(command.notes, list) else ()
    call.engine.host_uris.result(
        command.id,
        Found(
            content=_text(fields, "content"),
            content_type=_text(fields, "type") or "text/plain",
            notes=tuple(note for note in notes if isinstance(note, str) and note.strip()),
            immutable=command.immutable if isinstance(command.immutable, bool) else None,
        ),
    )
    return Silence()


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


HOST_URIS: dict[str, Handler] = {
    "set_host_uri_schemes": Handler("now", _set_host_uri_schemes),
    "host_uri_result": Handler("now", _host_uri_result),
}
