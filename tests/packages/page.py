"""Writes the table of docs/pi-packages.md: `python -m tests.packages.page FOLDER`, after a trial.

The reasons of differences are written by hand, below.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import loads
from ludolf.cli.packages.report import library_names
from tests.packages import versions
from tests.packages.install import agent_folder
from tests.packages.trial import OWN_TOOLS, Trial
from tests.packages.verdict import differences

PAGE = Path(__file__).parents[2] / "docs" / "pi-packages.md"
START, END = "<!-- packages: start -->", "<!-- packages: end -->"
_PARTS = ("commands", "tools", "notices", "dialogs", "errors", "results")
REASONS = {
    "pi-fff": "same, but for a state (`indexing` or `ready`) that depends on time",
}


def main() -> None:
    folder = Path(sys.argv[1])
    results = loads((folder / "results.json").read_bytes())
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n{_tables(results, folder)}{END}{after}", "utf-8")


def _tables(results: dict[str, Any], folder: Path) -> str:
    examples = {name: row for name, row in results.items() if name.startswith("examples/")}
    rows = [
        _row(name, version, results[name], folder) if name in results else _absent(name, version)
        for name, version in versions.PACKAGES.items()
    ]
    same = sum(not _differences(row) for row in examples.values())
    lines = [
        "| package | version | commands | tools | names of pi's library | compared with pi |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"Examples of pi {versions.PI}: {same} of {len(examples)} behave the same.",
    ]
    for name, row in sorted(examples.items()):
        found = _differences(row)
        if found:
            lines.append(f"- `{name.removeprefix('examples/')}`: {_reason(name, found)}")
    return "\n".join(lines) + "\n"


def _row(name: str, version: str, row: Any, folder: Path) -> str:
    names = library_names(agent_folder(folder, name) / "npm/node_modules" / name)
    library = ", ".join(f"`{one.partition(':')[2]}`" for one in names[:3])
    library += f" and {len(names) - 3} more" if len(names) > 3 else ""
    ours = msgspec.convert(row["ludolf"], Trial)
    tools = [tool for tool in ours.tools if tool not in OWN_TOOLS]
    found = _differences(row)
    verdict = "same" if not found else _reason(name, found)
    counts = f"{len(ours.commands)} | {len(tools)}"
    return f"| {name} | {version} | {counts} | {library} | {verdict} |"


def _absent(name: str, version: str) -> str:
    return f"| {name} | {version} | | | | not tried: it could not be installed |"


def _differences(row: Any) -> list[str]:
    return differences(msgspec.convert(row["pi"], Trial), msgspec.convert(row["ludolf"], Trial))


def _reason(name: str, found: list[str]) -> str:
    parts = [part for part in _PARTS if any(one.startswith(part) for one in found)]
    return REASONS.get(name) or f"differs in {', '.join(parts) or 'loading'}"


if __name__ == "__main__":
    main()
