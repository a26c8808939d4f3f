"""Parse JSON of others that may be missing or malformed."""

from typing import Any

from ludolf.base import loads


def json_value(data: bytes | str) -> Any:
    """Return the value of a text; None if it is not JSON."""
    try:
        return loads(data)
    except (ValueError, RecursionError):
        return None


def json_object(data: bytes | str) -> dict[str, Any]:
    """Return the object of a text; empty if it is not a JSON object."""
    value = json_value(data)
    return value if isinstance(value, dict) else {}
