"""The two pictures of an edit: a numbered diff for people, a unified patch for programs."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

CONTEXT = 4


class Change(NamedTuple):
    """Lines `old_start` to `old_end` became `new_start` to `new_end`; from 0, ends excluded."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Comparison:
    """Two texts compared line by line."""

    def __init__(self, old: str, new: str) -> None:
        self._old = _lines(old)
        self._new = _lines(new)
        self._changes = _changes(self._old, self._new)

    @property
    def first_changed_line(self) -> int | None:
        """Counted from 1 in the new text."""
        return self._changes[0].new_start + 1 if self._changes else None

    def numbered(self) -> str:
        """Each line with its sign and number; stretches without change shortened to `...`."""
        width = len(str(max(len(self._old), len(self._new))))
        gap = f" {'':{width}} ..."
        shown: list[str] = []
        reached = 0
        for hunk in _hunks(self._changes):
            start, end = self._old_span(hunk)
            if start > reached:
                shown.append(gap)
            for sign, number, line in self._hunk_lines(hunk):
                text = line.removesuffix("\n")
                shown.append(f"{sign}{number:>{width}} {text}")
            reached = end
        if self._changes and reached < len(self._old):
            shown.append(gap)
        return "\n".join(shown)

    def patch(self, path: str) -> str:
        """Unified diff with file headers."""
        out = [f"--- {path}\n", f"+++ {path}\n"]
        for hunk in _hunks(self._changes):
            out.append(self._hunk_header(hunk))
            for sign, _number, line in self._hunk_lines(hunk):
                end = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
                out.append(f"{sign}{line}{end}")
        return "".join(out)

    def _old_span(self, hunk: Sequence[Change]) -> tuple[int, int]:
        start = max(0, hunk[0].old_start - CONTEXT)
        return start, min(len(self._old), hunk[-1].old_end + CONTEXT)

    def _hunk_header(self, hunk: Sequence[Change]) -> str:
        start, end = self._old_span(hunk)
        new_start = start + hunk[0].new_start - hunk[0].old_start
        new_end = end + hunk[-1].new_end - hunk[-1].old_end
        return f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"

    def _hunk_lines(self, hunk: Sequence[Change]) -> Iterator[tuple[str, int, str]]:
        at, end = self._old_span(hunk)
        for change in hunk:
            yield from self._numbered_lines(" ", at, change.old_start)
            yield from self._numbered_lines("-", change.old_start, change.old_end)
            yield from self._numbered_lines("+", change.new_start, change.new_end)
            at = change.old_end
        yield from self._numbered_lines(" ", at, end)

    def _numbered_lines(self, sign: str, start: int, end: int) -> Iterator[tuple[str, int, str]]:
        source = self._new if sign == "+" else self._old
        for index in range(start, end):
            yield sign, index + 1, source[index]


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _changes(old: list[str], new: list[str]) -> list[Change]:
    from difflib import SequenceMatcher

    # Most edits touch little: without the common head and tail the matcher has little to do.
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    matcher = SequenceMatcher(None, middle_old, middle_new)
    return [
        Change(i1 + head, i2 + head, j1 + head, j2 + head)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _hunks(changes: Sequence[Change]) -> list[list[Change]]:
    """Changes so near to each other that their context would touch stand together."""
    hunks: list[list[Change]] = []
    for change in changes:
        if hunks and change.old_start - hunks[-1][-1].old_end <= 2 * CONTEXT:
            hunks[-1].append(change)
        else:
            hunks.append([change])
    return hunks


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"
