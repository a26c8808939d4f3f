"""`ludolf doctor`: check the installation, the configuration and the surroundings."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from ludolf.cli.subcommands.doctor_checks import Finding, checks
from ludolf.cli.terminal import say, say_json
from ludolf.config.settings.home import current_folder, find_home


def run(words: Sequence[str]) -> int:
    """Run `ludolf doctor WORDS`; returns 1 if something does not work."""
    about = "Check the installation, the configuration and the surroundings."
    parser = ArgumentParser(prog="ludolf doctor", allow_abbrev=False, description=about)
    parser.add_argument("--online", action="store_true", help="also ask the providers for a reply")
    parser.add_argument("--json", action="store_true", help="print JSON lines, for scripts")
    arguments = parser.parse_args(words)
    failed = False
    for finding in checks(find_home(current_folder(), os.environ), online=arguments.online):
        failed = failed or finding.status == "error"
        if arguments.json:
            say_json(finding)
        else:
            say(_lines(finding))
            sys.stdout.flush()
    return 1 if failed else 0


def _lines(finding: Finding) -> str:
    line = f"{finding.status:<8} {finding.area:<10} {finding.text}"
    return line if finding.hint is None else f"{line}\n{'':<20}{finding.hint}"
