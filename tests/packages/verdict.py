"""Compares what two programs did with a package."""

from typing import Any

from tests.packages.trial import OWN_TOOLS, Trial


def differences(pi: Trial, ludolf: Trial) -> list[str]:
    """One line for each part that differs."""
    if not pi.started:
        return []  # it does not load in pi either
    if not ludolf.started:
        return [f"does not load: {ludolf.stderr[-300:].strip()}"]
    found: list[str] = []
    if pi.commands != ludolf.commands:
        found.append(f"commands: {_only(pi.commands, ludolf.commands)}")
    theirs, ours = _schemas(pi), _schemas(ludolf)
    if theirs != ours:
        wrong = [name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name)]
        found.append(f"tools: {', '.join(sorted(wrong))}")
    for name in ("notices", "dialogs", "errors", "results"):
        expected, given = sorted(getattr(pi, name)), sorted(getattr(ludolf, name))
        if expected != given:
            found.append(f"{name}: {_only(expected, given)}")
    return found


def _only(expected: list[str], given: list[str]) -> str:
    missing = [one[:200] for one in expected if one not in given]
    added = [one[:200] for one in given if one not in expected]
    return f"only pi: {missing}; only Ludolf: {added}"


def _schemas(trial: Trial) -> dict[str, Any]:
    """The schemas of tools of packages, without what has no meaning.

    These are `additionalProperties` at the top, which pi does not send, and empty lists.
    """
    return {
        name: {
            key: value
            for key, value in schema.items()
            if key != "additionalProperties" and (key, value) != ("required", [])
        }
        for name, schema in trial.tools.items()
        if name not in OWN_TOOLS
    }
