"""`python -m bench`: measure Ludolf and every installed peer, print and store the results."""

import argparse
import sys
from pathlib import Path
from typing import Any

from bench import page, plot, report, results, verdicts
from bench.lines import GROUPS
from bench.programs import Program, find_peers, ours
from bench.stage import open_stage, say


def main() -> int:
    arguments = _arguments()
    result = results.last() if arguments.last else _measure(arguments)
    programs = [Program(name, command=(), **about) for name, about in result["programs"].items()]
    judged = verdicts.judge(result["figures"], verdicts.bases(programs))
    _show(result, judged)
    _write(result, judged, programs, arguments)
    return int(any(each.over for each in judged if each.is_rule or not result["quick"]))


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    peers = [] if arguments.alone else find_peers(arguments.peers, arguments.peers_dir)
    programs = [ours(), *peers]
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


def _show(result: dict[str, Any], judged: list[verdicts.Verdict]) -> None:
    parts = [
        report.caption(result),
        report.table(judged, list(result["programs"])),
        report.bars(judged),
        report.remarks(judged, result["notes"]),
    ]
    sys.stdout.write("\n\n".join(filter(None, parts)) + "\n")


def _write(
    result: dict[str, Any],
    judged: list[verdicts.Verdict],
    programs: list[Program],
    arguments: argparse.Namespace,
) -> None:
    if arguments.plot:
        arguments.plot.write_text(plot.drawing(judged, programs, result["date"][:10]))
    if arguments.page:
        tables = page.markdown_tables(judged, programs, report.caption(result))
        arguments.page.write_text(page.rewrite(arguments.page.read_text(), tables))
        say(f"{arguments.page}: new tables: {', '.join(tables) or 'none'}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    kinds = "KIND is pi, omp, tau, codex, goose, claude or opencode"
    parser.add_argument("--peers", default="", help=f"NAME[:KIND]=COMMAND ...; {kinds}")
    parser.add_argument(
        "--peers-dir", type=Path, help="also measure what `bench.install_peers` put there"
    )
    parser.add_argument("--alone", action="store_true", help="measure no peers")
    parser.add_argument(
        "--only", help=f"groups to measure, of {','.join(GROUPS)}; results are not stored"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="number of rounds; the result is the median"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; results are not stored")
    parser.add_argument("--last", action="store_true", help="show the last stored run")
    parser.add_argument("--plot", type=Path, help="write the costs relative to Ludolf as SVG")
    parser.add_argument(
        "--page", type=Path, help="renew the tables of this page that were measured as a whole"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
