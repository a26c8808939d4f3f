"""The last row: folder, branch, session, model, context, cost, other clients."""

from pathlib import Path

from ludolf.tui.cells import cut, plain, width
from ludolf.tui.conversation import Conversation, FooterInfo

_MOST_HEAD_BYTES = 4096


def footer_text(conversation: Conversation, folder: str, cells: int, *, is_ascii: bool) -> str:
    """Return the footer without styles, at most so wide."""
    dot = "-" if is_ascii else "·"
    left, right = _left(conversation, folder, dot), _right(conversation, dot, is_ascii=is_ascii)
    room = cells - width(right) - 2
    if room < 8:
        return cut(right or left, cells)
    if width(left) > room:
        left = cut(left, room - 1) + ("~" if is_ascii else "…")
    return left + " " * (cells - width(left) - width(right)) + right


def _left(conversation: Conversation, folder: str, dot: str) -> str:
    name = conversation.info.name
    return f"{folder} {dot} {name}" if name else folder


def _right(conversation: Conversation, dot: str, *, is_ascii: bool) -> str:
    info = conversation.info
    parts = [_model(info, "*" if is_ascii else "•")]
    if info.percent is not None and info.window:
        parts.append(f"{info.percent:.0f} % of {_count(info.window)}")
    if info.cost >= 0.005:
        parts.append(f"${info.cost:.2f}")
    parts += [" ".join(plain(text).split()) for text in conversation.statuses.values()]
    if conversation.others:
        parts.append(f"also: {', '.join(conversation.others.values())}")
    return f" {dot} ".join(part for part in parts if part)


def _model(info: FooterInfo, mark: str) -> str:
    if not info.model:
        return ""
    return f"{plain(info.model)} {mark} {info.level}" if info.level != "off" else plain(info.model)


def _count(tokens: int) -> str:
    return f"{tokens / 1e6:g}M" if tokens >= 1_000_000 else f"{tokens / 1000:.0f}k"


def folder_text(cwd: str, home: str) -> str:
    """Return the folder as people write it, with the branch of git."""
    shown = cwd
    if home and (cwd == home or cwd.startswith(home.rstrip("/") + "/")):
        shown = "~" + cwd[len(home.rstrip("/")) :]
    branch = _branch(cwd)
    return plain(f"{shown} ({branch})" if branch else shown)


def _branch(cwd: str) -> str:
    """Return the branch that is checked out; empty without git."""
    folder = Path(cwd)
    for each in (folder, *folder.parents):
        git = each / ".git"
        try:
            if git.is_file():
                line = git.read_bytes()[:_MOST_HEAD_BYTES].decode("utf-8", "replace")
                git = each / line.removeprefix("gitdir:").strip()
            elif not git.is_dir():
                continue
            with open(git / "HEAD", "rb") as file:
                head = file.read(_MOST_HEAD_BYTES).decode("utf-8", "replace").strip()
        except OSError:
            return ""
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
    return ""
