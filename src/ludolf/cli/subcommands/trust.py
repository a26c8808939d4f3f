"""`ludolf trust`: show the code of a project and store whether it is trusted."""

import os
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from ludolf.base import CommandError, ConfigError, Value
from ludolf.cli.terminal import one_line, say, say_json, table
from ludolf.config.settings.executed import files_below, project_code
from ludolf.config.settings.home import Home, current_folder, expand, find_home
from ludolf.config.settings.trust import (
    TrustState,
    guarded_paths,
    save_decision,
    stored_decisions,
    trust_state,
)

# Files of an extension are few; a longer list would hide the first ones.
MOST_SHOWN = 100
_STATES: dict[TrustState, str] = {
    "trusted": "trusted",
    "changed": "has changed since it was trusted",
    "refused": "not trusted",
    "undecided": "not trusted yet",
}


class TrustReport(Value):
    """A folder, the state of its trust, what trust covers, and the files with code in it."""

    folder: str
    state: TrustState
    resources: tuple[str, ...]
    code: tuple[str, ...]


class StoredTrust(Value):
    """A stored decision; `state` is `missing` if the folder does not exist."""

    folder: str
    trusted: bool
    state: str


def run(words: Sequence[str]) -> int:
    """Run `ludolf trust WORDS`; returns the exit code.

    Raises:
        LudolfError: the folder does not exist, cannot be checked, or the user was not asked.
    """
    arguments = _parser().parse_args(words)
    if arguments.list:
        return _list(find_home(current_folder(), os.environ), as_json=arguments.json)
    home = _home_of(arguments.dir)
    if arguments.revoke:
        _save(home, trusted=False)
        report = _report(home)
    else:
        report = _report(home)
        if arguments.json and not arguments.yes:
            say_json(report)
            return 0
        if not arguments.json:
            _show(report)
        if report.state == "undecided" and not arguments.yes and not _needs_trust(report):
            say("Nothing was changed.")
            return 0
        if report.state != "trusted" and not (arguments.yes or _agrees(home.cwd)):
            say("Nothing was changed.")
            return 1
        if report.state != "trusted":
            _save(home, trusted=True)
            report = _report(home)
    if arguments.json:
        say_json(report)
    else:
        say(_RESULTS[report.state].format(folder=home.cwd))
    return 0


_RESULTS: dict[TrustState, str] = {
    "trusted": "{folder} is trusted: Ludolf uses its settings and resources until they change.",
    "changed": "{folder} changed while it was being trusted. Run the command again.",
    "refused": "{folder} is not trusted: Ludolf ignores its settings and resources.",
    "undecided": "{folder} has no stored decision.",
}


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ludolf trust",
        allow_abbrev=False,
        description="Show the code and resources of a project, and store that you trust them.",
    )
    parser.add_argument("dir", nargs="?", metavar="DIR", help="folder (default: this one)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--yes", action="store_true", help="do not ask")
    what.add_argument("--revoke", action="store_true", help="store that it is not trusted")
    what.add_argument("--list", action="store_true", help="list all stored decisions")
    parser.add_argument(
        "--json", action="store_true", help="print JSON; without --yes, nothing is stored"
    )
    return parser


def _home_of(named: str | None) -> Home:
    here = current_folder()
    folder = (here / expand(named, os.environ)).absolute() if named else here
    if not folder.is_dir():
        raise CommandError(f"{folder} is not a folder")
    return find_home(Path(os.path.normpath(folder)), os.environ)


def _report(home: Home) -> TrustReport:
    tops = project_code(home)
    files = dict.fromkeys(path for top in tops for path in files_below(top) if path.is_file())
    return TrustReport(
        folder=str(home.cwd),
        state=trust_state(home),
        resources=tuple(_short(path, home) for path in guarded_paths(home)),
        code=tuple(sorted(_short(path, home) for path in files)),
    )


def _short(path: Path, home: Home) -> str:
    return str(path.relative_to(home.cwd)) if path.is_relative_to(home.cwd) else str(path)


def _needs_trust(report: TrustReport) -> bool:
    return bool(report.resources or report.code)


def _show(report: TrustReport) -> None:
    say(f"{report.folder}: {_STATES[report.state]}")
    if not _needs_trust(report):
        say("The folder has no settings, extensions, skills or other resources that need trust.")
        return
    say("Trust covers these settings and resources:")
    _show_names(report.resources)
    if report.code:
        say("Ludolf runs code from these files, or commands that they name:")
    _show_names(report.code)


def _show_names(names: Sequence[str]) -> None:
    """Print names on a line each, since a name with a line break could pass for several."""
    for name in names[:MOST_SHOWN]:
        say(f"  {one_line(name, 1000)}")
    if len(names) > MOST_SHOWN:
        say(f"  and {len(names) - MOST_SHOWN} more; --json lists all")


def _agrees(folder: Path) -> bool:
    if not sys.stdin.isatty():
        raise CommandError(
            f"{folder} was not trusted, since stdin is not a terminal and you cannot be asked. "
            f"Check the files above, then run `ludolf trust --yes {shlex.quote(str(folder))}`."
        )
    sys.stderr.write("Trust this folder? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _save(home: Home, *, trusted: bool) -> None:
    try:
        save_decision(home, trusted=trusted)
    except OSError as error:
        text = f"The decision was not stored in {home.trust_file}: {error.strerror}"
        raise CommandError(text) from error


# ---------------------------------------------------------------- all decisions


def _list(home: Home, *, as_json: bool) -> int:
    rows = [
        StoredTrust(folder=folder, trusted=trusted, state=_state_of(home, Path(folder)))
        for folder, trusted in sorted(stored_decisions(home).items())
    ]
    if as_json:
        for row in rows:
            say_json(row)
    elif rows:
        say(table([("folder", "state"), *((row.folder, row.state) for row in rows)]))
    else:
        sys.stderr.write("No folder is trusted. Trust one with `ludolf trust DIR`.\n")
    return 0


def _state_of(home: Home, folder: Path) -> str:
    if not folder.is_dir():
        return "missing"
    try:
        return _STATES[trust_state(Home(agent=home.agent, cwd=folder, user=home.user))]
    except ConfigError as error:
        return f"cannot be checked: {error}"
