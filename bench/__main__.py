"""`python -m bench`: measure ours and every peer that is there, print, judge, store."""

import argparse
import sys
from pathlib import Path
from typing import Any

from bench import report, results, verdicts
from bench.lines import GROUPS
from bench.programs import Program, find_peers, ours
from bench.stage import open_stage, say


def main() -> int:
    given = _arguments()
    found = results.last() if given.last else _measure(given)
    programs = [Program(name, command=(), **about) for name, about in found["programs"].items()]
    judged = verdicts.judge(found["figures"], verdicts.bases(programs))
    _show(found, judged, given)
    return int(any(each.over for each in judged if each.is_rule or not found["quick"]))


def _measure(given: argparse.Namespace) -> dict[str, Any]:
    programs = [ours(), *([] if given.alone else find_peers(given.peers))]
    for program in programs:
        say(f"{program.name}: {program.kind} {program.version}")
    with open_stage(programs, quick=given.quick) as stage:
        for number in range(given.rounds):
            for name in given.only.split(",") if given.only else GROUPS:
                say(f"{name} ({number + 1} of {given.rounds})")
                GROUPS[name](stage)
        found = results.record(stage, given.rounds)
    if not given.quick and not given.only:
        results.append(found)
        say(f"stored in {results.FILE}")
    return found


def _show(found: dict[str, Any], judged: list[verdicts.Verdict], given: argparse.Namespace) -> None:
    parts = [
        report.table(judged, list(found["programs"]), markdown=given.markdown),
        report.bars(judged),
        report.remarks(judged, found["notes"]),
    ]
    sys.stdout.write("\n\n".join(filter(None, parts)) + "\n")
    if given.svg:
        given.svg.write_text(report.drawing(judged))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--peers", default="", help="NAME[:KIND]=COMMAND ...; KIND is pi, omp, tau")
    parser.add_argument("--alone", action="store_true", help="without any peer")
    parser.add_argument("--only", help=f"some of {','.join(GROUPS)}; nothing is stored")
    parser.add_argument("--rounds", type=int, default=1, help="take the median of so many")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is stored")
    parser.add_argument("--last", action="store_true", help="show the last stored run again")
    parser.add_argument("--markdown", action="store_true", help="the table in Markdown")
    parser.add_argument("--svg", type=Path, help="draw the ratios into this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
