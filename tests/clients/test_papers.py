"""The page about hosts names those that are tried, in the versions that are tried."""

from pathlib import Path

from tests.clients import versions

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_every_client_stands_on_the_page_with_its_version() -> None:
    _, _, section = PAGE.read_text().partition("## Hosts that were tried")
    rows = [row for row in section.partition("\n## ")[0].splitlines() if row.startswith("|")]
    tried = {
        **{f"pi's `RpcClient` | {version} ": version for version in versions.PI},
        **{f"oh-my-pi's `RpcClient` | {version} ": version for version in versions.OMP},
        **versions.NPM,
        **versions.PYTHON,
    }
    missing = [name for name, version in tried.items() if not _is_told(rows, name, version)]
    assert missing == []


def _is_told(rows: list[str], name: str, version: str) -> bool:
    return any(name in row and version in row for row in rows)
