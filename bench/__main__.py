"""`python -m bench`: measure Ludolf and every installed peer, print and store the results."""

import argparse
import sys
from pathlib import Path
from typing import Any

from bench import report, results, verdicts
from bench.lines import GROUPS
from bench.programs import Program, find_peers, ours
from bench.stage import open_stage, say


def main() -> int:
    arguments = _arguments()
    result = results.last() if arguments.last else _measure(arguments)
    programs = [Program(name, command=(), **about) for name, about in result["programs"].items()]
    judged = verdicts.judge(result["figures"], verdicts.bases(programs))
    _show(result, judged, arguments)
    return int(any(each.over for each in judged if each.is_rule or not result["quick"]))


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    programs = [ours(), *([] if arguments.alone else find_peers(arguments.peers))]
    for program in programs:
        say(f"{program.name}: {program.kind} {program.version}")
    with open_stage(programs, quick=arguments.quick) as stage:
        for number in range(arguments.rounds):
            for name in arguments.only.split(",") if arguments.only else GROUPS:
                say(f"{name} ({number + 1} of {arguments.rounds})")
                GROUPS[name](stage)
        result = results.record(stage, arguments.rounds)
    if not arguments.quick and not arguments.only:
        results.append(result)
        say(f"stored in {results.FILE}")
    return result


def _show(
    result: dict[str, Any], judged: list[verdicts.Verdict], arguments: argparse.Namespace
) -> None:
    parts = [
        report.table(judged, list(result["programs"]), markdown=arguments.markdown),
        report.bars(judged),
        report.remarks(judged, result["notes"]),
    ]
    sys.stdout.write("\n\n".join(filter(None, parts)) + "\n")
    if arguments.svg:
        arguments.svg.write_text(report.drawing(judged))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--peers", default="", help="NAME[:KIND]=COMMAND ...; KIND is pi, omp, tau")
    parser.add_argument("--alone", action="store_true", help="measure no peers")
    parser.add_argument(
        "--only", help=f"groups to measure, of {','.join(GROUPS)}; results are not stored"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="number of rounds; the result is the median"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; results are not stored")
    parser.add_argument("--last", action="store_true", help="show the last stored run")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--svg", type=Path, help="write a chart of the ratios to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
