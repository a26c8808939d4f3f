"""Makes the table of settings in docs/configuration.md from the code, between its two marks.

Usage: python scripts/make_settings_page.py
"""

from pathlib import Path

from ludolf.config.settings.reference import Setting, json_text, settings_table

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
BEGIN = "<!-- settings: made by scripts/make_settings_page.py -->\n"
END = "<!-- end of settings -->\n"


def updated(page: str) -> str:
    """Return the page with a new table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = ["| key | type | default | meaning |", "|---|---|---|---|"]
    rows = [_row(setting) for setting in settings_table()]
    return before + BEGIN + "\n" + "\n".join([*head, *rows]) + "\n\n" + END + after


def _row(setting: Setting) -> str:
    default = "" if setting.default is None else f"`{json_text(setting.default)}`"
    text = setting.help
    if setting.precedence:
        names = ", ".join(f"`{name}`" for name in setting.precedence)
        text += f" Overridden by {names}."
    if setting.user_only:
        text += " Only in the user's file."
    if not setting.has_effect:
        text += " *A setting of pi, without effect in Ludolf.*"
    return f"| `{setting.key}` | {setting.type_text} | {default} | {text} |"


def main() -> None:
    PAGE.write_text(updated(PAGE.read_text()))


if __name__ == "__main__":
    main()
