"""`ludolf telemetry`: try the connection to a collector, and report stored sessions."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ludolf.base import CommandError
from ludolf.cli.subcommands.sessions import SESSION_NAMES, locate, session_place
from ludolf.cli.terminal import say
from ludolf.config.settings.home import current_folder, find_home
from ludolf.config.settings.settings import SettingsFiles, TelemetryOptions

if TYPE_CHECKING:
    from ludolf.engine.features.telemetry.setup import TelemetryPlan

NO_EXTRA = "Telemetry needs further packages ({error}). Install them: pip install 'ludolf[otel]'"


def run(words: Sequence[str]) -> int:
    """Run `ludolf telemetry WORDS`; returns the exit code.

    Raises:
        CommandError: a package is missing, no collector is named, or a session does not exist.
    """
    arguments = _parser().parse_args(words)
    try:
        code: int = arguments.act(arguments)
    except ImportError as error:
        raise CommandError(NO_EXTRA.format(error=error)) from error
    return code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="ludolf telemetry", description="OpenTelemetry of runs.")
    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    about = "send one span, one metric and one log event, and show the collector's answers"
    check = words.add_parser("check", help=about, description=about)
    check.set_defaults(act=_check)
    about = "send the spans of stored sessions, with their original times"
    replay = words.add_parser("replay", help=about, description=about)
    replay.add_argument("sessions", nargs="+", metavar="SESSION", help=SESSION_NAMES)
    replay.add_argument("--session-dir", metavar="DIR", help="folder of sessions")
    replay.set_defaults(act=_replay)
    return parser


def _check(arguments: Namespace) -> int:
    from ludolf.engine.features.telemetry.sending import check_signals

    plan, failed = _plan(_options()), False
    for checked in check_signals(plan, os.environ):
        failed |= checked.problem is not None
        say(f"{checked.signal:<8} {checked.address}  {checked.problem or 'accepted'}")
    return 1 if failed else 0


def _replay(arguments: Namespace) -> int:
    from ludolf.engine.features.telemetry.content import content_rules
    from ludolf.engine.features.telemetry.sending import has_traces, send_sessions

    options = _options()
    plan, place = _plan(options), session_place(arguments.session_dir)
    if not has_traces(plan):
        raise CommandError("No exporter of traces is set: OTEL_TRACES_EXPORTER names one.")
    paths = [locate(place, name) for name in arguments.sessions]
    rules = content_rules(os.environ, options, _scrub)
    count, problems = send_sessions(paths, plan, os.environ, rules)
    for text in problems:
        sys.stderr.write(f"{text}\n")
    say(f"Sent the spans of {count} prompts of {len(paths)} sessions.")
    return 1 if problems else 0


def _scrub(value: Any) -> Any:
    """Mask the secrets of the environment; those of a session's files are not known here."""
    from ludolf.ai.record.scrubbing import Scrubber
    from ludolf.engine.features.secrets import secrets_of_environment

    return Scrubber(secrets_of_environment(os.environ), "[redacted]").value(value)


def _options() -> TelemetryOptions:
    """Return the user's own settings; those of a project never choose a collector."""
    home = find_home(current_folder(), os.environ)
    return SettingsFiles(home).user.telemetry


def _plan(options: TelemetryOptions) -> "TelemetryPlan":
    from ludolf.engine.features.telemetry.setup import NO_ENDPOINT, make_plan

    plan = make_plan(os.environ, options.endpoint, options.headers, metrics_at_end=True)
    if plan.is_empty:
        raise CommandError(NO_ENDPOINT)
    return plan
