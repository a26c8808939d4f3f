"""Writes the JSON Schema of models.json: where it ships with the package, and where docs show it.

Usage: python scripts/make_models_schema.py
"""

from pathlib import Path

from ludolf.config.models.models_schema import FILE, schema_text

DOCS = Path(__file__).parents[1] / "docs" / "schema" / "models.schema.json"


def main() -> None:
    text = schema_text()
    for target in (FILE, DOCS):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
