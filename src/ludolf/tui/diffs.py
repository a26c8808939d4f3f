"""Render the changes of a file as rows: numbers, signs, and the changed words marked."""

from ludolf.page.diffs import DiffLine, FileChanges
from ludolf.tui.cells import cut, plain, wrap
from ludolf.tui.theme import Theme

_ROLES = {"+": "toolDiffAdded", "-": "toolDiffRemoved", "@": "dim"}
_WIDEST_NUMBER = 7


def diff_rows(
    changes: FileChanges, cells: int, theme: Theme, *, first: int = 30, last: int = 10
) -> list[str]:
    """Render changes; of long ones the first and last lines."""
    lines = changes.lines
    numbers = min(_WIDEST_NUMBER, max((len(line.number) for line in lines), default=0))
    hidden = len(lines) - first - last
    if hidden <= 1:
        return [row for line in lines for row in _line_rows(line, numbers, cells, theme)]
    above = [row for line in lines[:first] for row in _line_rows(line, numbers, cells, theme)]
    below = [row for line in lines[-last:] for row in _line_rows(line, numbers, cells, theme)]
    return [*above, cut(more_lines(hidden, theme), cells), *below]


def diff_counts(changes: FileChanges, theme: Theme) -> str:
    """Return the numbers of added and removed lines, such as `+3 −1`."""
    parts = []
    if changes.added:
        parts.append(theme.paint("toolDiffAdded", f"+{changes.added}"))
    if changes.removed:
        parts.append(theme.paint("toolDiffRemoved", f"−{changes.removed}"))
    return " ".join(parts)


def more_lines(count: int, theme: Theme) -> str:
    """Return the row that stands for lines that are not shown."""
    return theme.paint("dim", f"… {count:,} more line{'s' if count != 1 else ''} (Ctrl+O)")


def _line_rows(line: DiffLine, numbers: int, cells: int, theme: Theme) -> list[str]:
    style = theme.style(_ROLES.get(line.sign, "toolDiffContext"))
    sign = " " if line.sign == "@" else line.sign
    # The number comes from a result, which may hold anything.
    gutter = f"{plain(line.number)[:numbers]:>{numbers}} {sign} " if numbers else f"{sign} "
    room = cells - len(gutter)
    if room < 1:
        gutter, room = "", max(1, cells)
    rows = wrap(f"{style}{_text(line)}\x1b[0m" if style else _text(line), room, words=False)
    head = theme.paint("dim", gutter[:numbers]) + f"{style}{gutter[numbers:]}"
    return [head + rows[0], *(" " * len(gutter) + row for row in rows[1:])]


def _text(line: DiffLine) -> str:
    if line.mark is None:
        return _safe(line.text)
    before, inside, after = line.parts()
    return f"{_safe(before)}\x1b[7m{_safe(inside)}\x1b[27m{_safe(after)}"


def _safe(text: str) -> str:
    return plain(text).replace("\n", " ")
