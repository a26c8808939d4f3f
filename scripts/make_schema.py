"""Writes the JSON Schema of every frame, and TypeScript types, to docs/schema.

Usage: python scripts/make_schema.py
"""

from pathlib import Path

from ludolf.protocol.wire.published import schemas
from ludolf.protocol.wire.schema import text_of
from ludolf.protocol.wire.typescript import typescript

FOLDER = Path(__file__).parents[1] / "docs" / "schema"


def files() -> dict[str, str]:
    """The text of each file, by its name."""
    made = schemas()
    found = {f"{name}.schema.json": text_of(schema) for name, schema in made.items()}
    return {**found, "ludolf.d.ts": typescript(made)}


def main() -> None:
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
