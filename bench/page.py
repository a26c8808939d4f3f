"""The tables of a run in Markdown, and a page that contains them between marks.

A table of the page stands between `<!-- bench: NAME -->` and `<!-- end -->`; the names are those of
`SECTIONS`, and `growth`.
"""

import re
from collections.abc import Mapping, Sequence

from bench import report
from bench.budgets import RULES, SECTIONS
from bench.programs import OURS, Program
from bench.verdicts import Verdict

_MARKED = re.compile(r"(<!-- bench: (?P<name>\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
_RATIO = -3


def markdown_tables(
    judged: Sequence[Verdict], programs: Sequence[Program], caption: str
) -> dict[str, str]:
    """Return a table for each section that has a figure of Ludolf on every line.

    A sentence about the run follows each table.
    """
    by_key = {each.key: each for each in judged}
    keys = {name: [line.key for line in lines] for name, lines in SECTIONS.items()}
    tables = {
        name: _markdown([by_key[key] for key in wanted], programs)
        for name, wanted in keys.items()
        if all(key in by_key for key in wanted)
    }
    if all(rule.key in by_key for rule in RULES):
        tables["growth"] = _growth([by_key[rule.key] for rule in RULES])
    return {name: f"{table}\n\n{caption}" for name, table in tables.items()}


def rewrite(text: str, tables: Mapping[str, str]) -> str:
    """Replace the tables of a page that are given; the others stay."""
    return _MARKED.sub(
        lambda match: (
            match[1] + tables[match["name"]] + match[3] if match["name"] in tables else match[0]
        ),
        text,
    )


def _markdown(verdicts: Sequence[Verdict], programs: Sequence[Program]) -> str:
    """Render a table without programs and columns that have no figure in it."""
    shown = [each for each in programs if any(each.name in line.values for line in verdicts)]
    heads = ["line", "unit", *map(_title, shown), "ratio", "budget", ""]
    rows = [report.row(each, [program.name for program in shown]) for each in verdicts]
    if not any(each[_RATIO] for each in rows):
        for cells in (heads, *rows):
            del cells[_RATIO]
    return _lines([heads, ["---"] * len(heads), *rows])


def _growth(verdicts: Sequence[Verdict]) -> str:
    rows = [[each.what, report.number(each.ratio), f"{each.budget:g}"] for each in verdicts]
    return _lines([["rule", "measured", "limit"], ["---"] * 3, *rows])


def _title(program: Program) -> str:
    return "Ludolf" if program.name == OURS else f"{program.kind} {program.version}"


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
