"""Render each entry of a session as an article.

Functions that may render long texts return pieces, which are joined once for each entry.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Image,
    OpaqueMessage,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from ludolf.base import loads
from ludolf.page.code import COPY, block, code_box, folded, language_of
from ludolf.page.diffs import DiffLine, FileChanges, edit_changes, numbered_changes
from ludolf.page.formatting import spent_line, stamp, tokens
from ludolf.page.markdown import render_markdown
from ludolf.page.page_model import Item, Story, stored_message, ways_on
from ludolf.page.text import attribute, content, data_image, one_line, plain_lines, terminal_html
from ludolf.session.entries import text_field
from ludolf.session.views import prompt_title, skill_parts


class Diff(msgspec.Struct, frozen=True):
    """Lines of HTML, and the numbers of added and removed lines."""

    html: str
    added: int
    removed: int


def numbered_diff(text: str) -> Diff:
    """Render the diff in the details of an edit result."""
    return _diff(numbered_changes(text))


def edits_diff(args: Mapping[str, Any]) -> Diff:
    """Render the edits in the arguments of a call that has no result."""
    return _diff(edit_changes(args))


def _diff(changes: FileChanges) -> Diff:
    return Diff("\n".join(map(_row, changes.lines)), changes.added, changes.removed)


def _row(line: DiffLine) -> str:
    kind = {"+": "add", "-": "del", "@": "gap"}.get(line.sign, "same")
    number = attribute(line.number)
    return f'<span class="d-{kind}" data-n="{number}">{_with_mark(line)}</span>'


def _with_mark(line: DiffLine) -> str:
    if line.mark is None:
        return content(line.text)
    before, inside, after = line.parts()
    return f"{content(before)}<mark>{content(inside)}</mark>{content(after)}"


class Card(msgspec.Struct):
    """Content of a card: a title line with chips, then its parts, in pieces."""

    name: str
    title: str
    parts: list[str]
    chips: list[str] = []


class _Call(msgspec.Struct):
    """A call and its result, as cards show them."""

    name: str
    args: dict[str, Any]
    result: ToolResultMessage | None
    cwd: str

    def text(self, key: str) -> str:
        value = self.args.get(key)
        return value if isinstance(value, str) else ""

    @property
    def path(self) -> str:
        return self.text("path") or self.text("file_path")

    @property
    def place(self) -> str:
        return content(_short(self.path, self.cwd))

    @property
    def output(self) -> str:
        return text_of(self.result.content, "\n") if self.result is not None else ""

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.is_error


def tool_card(call: ToolCall | None, result: ToolResultMessage | None, cwd: str) -> list[str]:
    """Render a call and its result; either may be missing."""
    name = call.name if call is not None else result.tool_name if result is not None else ""
    shown = _Call(name, _arguments(call), result, cwd)
    card = _CARDS.get(name, _other_card)(shown)
    state = "done"
    if result is None:
        state = "pending"
        card.chips.append(_chip("no result"))
    else:
        if result.is_error:
            state = "failed"
            card.chips.append(_chip("failed", "bad"))
        card.parts.extend(image_figures(result.content))
    return _card_html(card, state)


def bash_card(run: BashExecutionMessage) -> list[str]:
    """Render a command that the host ran directly."""
    chips = []
    if run.exclude_from_context:
        chips.append(_chip("not sent to the model"))
    if run.truncated:
        chips.append(_chip("output shortened"))
    failed = run.cancelled or bool(run.exit_code)
    if run.cancelled:
        chips.append(_chip("cancelled", "bad"))
    elif run.exit_code:
        chips.append(_chip(f"exit {run.exit_code}", "bad"))
    parts = [*_command(run.command), *_output(run.output, tail=True)]
    card = Card("$", _first_line(run.command), parts, chips)
    return _card_html(card, "failed" if failed else "done")


def image_figures(parts: tuple[Part, ...]) -> list[str]:
    return [_figure(part) for part in parts if isinstance(part, Image)]


def json_block(value: Any) -> list[str]:
    """Render any JSON, indented and folded."""
    return code_box(_pretty(value), "json", kind="json", css="wrap")


# ---------------------------------------------------------------- cards of known tools


def _bash_card(call: _Call) -> Card:
    command = call.text("command")
    parts = [*_command(command), *_output(call.output, tail=True)]
    return Card("$", _first_line(command), parts)


def _read_card(call: _Call) -> Card:
    parts = _code(call.output, "" if call.failed else language_of(call.path), 8)
    return Card(call.name, call.place + _range(call.args), parts)


def _write_card(call: _Call) -> Card:
    parts = _code(call.text("content"), language_of(call.path), 20)
    return Card(call.name, call.place, parts + (_output(call.output) if call.failed else []))


def _edit_card(call: _Call) -> Card:
    details = call.result.details if call.result is not None else None
    stored = details.get("diff") if isinstance(details, dict) else None
    diff = numbered_diff(stored) if isinstance(stored, str) else edits_diff(call.args)
    parts = block(folded(diff.html, css="diff", shown=80), "changes") if diff.html else []
    if call.failed or not diff.html:
        parts += _output(call.output)
    counts = ((diff.added, "+", "plus"), (diff.removed, "−", "minus"))
    chips = [_chip(f"{sign}{count}", css) for count, sign, css in counts if count]
    return Card(call.name, call.place, parts, chips)


def _search_card(call: _Call) -> Card:
    pattern, path = call.text("pattern"), call.text("path")
    words = [f"<b>{content(one_line(pattern, 160))}</b>"] if pattern else []
    if path or not pattern:
        words.append(f"{'in ' if pattern else ''}{content(_short(path or '.', call.cwd))}")
    if glob := call.text("glob"):
        words.append(f"({content(one_line(glob, 80))})")
    return Card(call.name, " ".join(words), _output(call.output, shown=8))


def _other_card(call: _Call) -> Card:
    short = ", ".join(
        f"{key}: {one_line(str(value), 60)}"
        for key, value in list(call.args.items())[:6]
        if isinstance(value, str | int | float | bool)
    )
    parts = json_block(call.args) if call.args else []
    return Card(call.name, content(one_line(short, 140)), parts + _output(call.output))


_CARDS: dict[str, Callable[[_Call], Card]] = {
    "bash": _bash_card,
    "read": _read_card,
    "write": _write_card,
    "edit": _edit_card,
    "grep": _search_card,
    "find": _search_card,
    "ls": _search_card,
}


# ---------------------------------------------------------------- parts


def _card_html(card: Card, state: str) -> list[str]:
    chips = "".join(card.chips)
    title = f'<span class="title">{card.title}</span>' if card.title else ""
    summary = f'<span class="name">{content(card.name[:80])}</span>{title}{chips}</summary>'
    start = f'<details class="call {state}" open><summary>{summary}'
    if card.parts:
        return [f'{start}<div class="out">', *card.parts, "</div></details>"]
    if state == "pending":
        return [f"{start}</details>"]
    return [f'{start}<div class="out"><p class="empty">No output</p></div></details>']


def _chip(text: str, css: str = "") -> str:
    return f'<span class="chip {css}">{content(text)}</span>'


def _command(command: str) -> list[str]:
    """Render the whole command if the title shows only its start."""
    lines = plain_lines(command.strip())
    if len(lines) == 1 and len(command) <= 160:
        return []
    return code_box("\n".join(lines), "bash", kind="command", css="wrap")


def _output(text: str, *, shown: int = 14, tail: bool = False) -> list[str]:
    if not text.strip():
        return []
    inside = terminal_html(text.rstrip("\n"))
    return block(folded(inside, css="wrap", shown=shown, tail=tail))


def _code(text: str, language: str, shown: int) -> list[str]:
    if not text:
        return []
    return code_box(text.rstrip("\n"), language, shown=shown)


def _figure(image: Image) -> str:
    source = data_image(image.mime_type, image.data)
    if source is None:
        return f'<p class="empty">Image of type {content(image.mime_type[:60])} not shown</p>'
    return f'<figure class="image"><img src="{attribute(source)}" alt="" loading="lazy"></figure>'


def _range(args: Mapping[str, Any]) -> str:
    first, limit = args.get("offset"), args.get("limit")
    if not isinstance(first, int) and not isinstance(limit, int):
        return ""
    start = first if isinstance(first, int) else 1
    end = str(start + limit - 1) if isinstance(limit, int) else ""
    return f'<span class="range">:{start}–{end}</span>'


def _first_line(command: str) -> str:
    lines = plain_lines(command.strip())
    more = " …" if len(lines) > 1 else ""
    return content(one_line(lines[0], 160) + more)


def _short(path: str, cwd: str) -> str:
    folder = cwd.rstrip("/") + "/"
    return one_line(path.removeprefix(folder) if len(folder) > 1 else path, 200)


def _arguments(call: ToolCall | None) -> dict[str, Any]:
    return call.arguments if call is not None and isinstance(call.arguments, dict) else {}


def _pretty(value: Any) -> str:
    import json

    try:
        plain = json.dumps(value, ensure_ascii=False)
        pretty = json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        return "nested too deeply to be shown"
    # Indented JSON with hundreds of levels would be mostly spaces.
    return pretty if len(pretty) < 6 * len(plain) + 200 else plain


_ROLES = {"user": "You", "assistant": "Assistant", "system": "System", "custom": "Extension"}
# Title and fields of entries that are shown as one line.
_QUIET_LINES = {
    "model_change": ("Model", "provider", "modelId"),
    "thinking_level_change": ("Thinking", "thinkingLevel"),
    "label": ("Label", "label"),
    "session_info": ("Session name", "name"),
    "custom": ("Data of an extension", "customType"),
    "usage": ("Other use", "kind"),
}
_PROBLEMS = {
    "aborted": "Stopped before it was finished",
    "length": "Cut off at the limit of its length",
}
_MARKS = re.compile(r"[*`]+|(?<!\S)#+ ")
_FORKS_SHOWN = 40


def article(story: Story, item: Item) -> str:
    """Render the article of one entry, with links to its branches if it has several."""
    css = f"e {item.kind}"
    above = story.items[item.parent].kind if item.parent >= 0 else ""
    if item.kind == "assistant" and above in ("tool", "assistant"):
        css += " on"  # it continues the answer above, after its tool results
    start = f'<article class="{css} h{item.size}" id="entry-{item.anchor}" data-i="{item.index}">'
    ways = ways_on(story, item) if len(item.children) > 1 else ()
    fork = fork_nav(story, ways) if len(ways) > 1 else ""
    return "".join((start, *_inside(story, item), fork, "</article>\n"))


def fork_nav(story: Story, children: Sequence[int]) -> str:
    """Render links to the branches of a fork."""
    links = []
    for number, index in enumerate(children[:_FORKS_SHOWN], start=1):
        child = story.items[index]
        here = ' aria-current="true"' if index in story.active else ""
        text = content(snippet(story, _descriptive(story, child), 70))
        link = f'href="#entry-{child.anchor}" data-go="{index}"{here}'
        links.append(f"<li><a {link}><b>{number}</b> {text}</a></li>")
    left = len(children) - _FORKS_SHOWN
    more = f"<li>and {left:,} more in the tree</li>" if left > 0 else ""
    title = f"{len(children):,} branches from here"
    return f'<nav class="fork"><span>{title}</span><ol>{"".join(links)}{more}</ol></nav>'


def snippet(story: Story, item: Item, limit: int = 90) -> str:
    """Return an entry as one line, for lists."""
    message = item.message
    match message:
        case AssistantMessage():
            text = _start(text_of(message.content, " "), limit) or _calls_line(message)
        case ToolResultMessage():
            text = _call_line(item.call, message.tool_name, story.header.cwd)
        case UserMessage() | CustomMessage():
            text = prompt_title(text_of(message.content, "\n\n")) or "(image)"
        case BashExecutionMessage():
            text = f"$ {message.command}"
        case None:
            text = _quiet_line(item)
        case OpaqueMessage():
            text = message.role
        case _:
            name = "Compacted" if item.kind == "compaction" else "Branch left"
            text = f"{name}: {message.summary}"
    return unmarked(text, limit)


def _start(text: str, limit: int) -> str:
    """Return a text without white space around it; of a long one, the part that is read."""
    text = text.lstrip()
    return text[: limit * 6] if len(text) > limit * 6 else text.rstrip()


def unmarked(text: str, limit: int) -> str:
    """Return the start of a Markdown text as one line, without its markup."""
    start = text[: limit * 6]
    marked = "*" in start or "`" in start or "#" in start
    return one_line(_MARKS.sub("", start) if marked else start, limit)


# ---------------------------------------------------------------- by kind


def _inside(story: Story, item: Item) -> list[str]:
    message = item.message
    if isinstance(message, ToolResultMessage) and not message.content:
        message = stored_message(item.entry)
    match message:
        case AssistantMessage():
            head = _head(item, f"{message.provider}/{message.model}")
            return [head, *_assistant(story, item, message)]
        case ToolResultMessage():
            card = tool_card(item.call, message, story.header.cwd)
            return [*card, _link(item, "link hash", "#"), _spent(item)]
        case UserMessage():
            return [_head(item), *_user(message.content), _spent(item)]
        case BashExecutionMessage():
            return [*bash_card(message), _link(item, "link hash", "#")]
        case CustomMessage():
            return [_head(item, message.custom_type), *_user(message.content)]
        case OpaqueMessage():
            return _opaque(item, message)
        case None:
            line = f'<p class="event">{content(_quiet_line(item))}</p>'
            return [line, *_extra(item), _spent(item)]
        case _:
            return _summary(item, message.summary)


def _head(item: Item, detail: str = "") -> str:
    role = _ROLES.get(item.kind, "Entry")
    more = _detail(detail) if detail else ""
    label = f'<span class="label">{content(item.label[:120])}</span>' if item.label else ""
    link = _link(item, "link", stamp(item.entry.timestamp, item.moment))
    return f'<header><span class="role">{role}</span>{more}{label}{COPY}{link}</header>'


@lru_cache(64)
def _detail(text: str) -> str:
    return f'<span class="detail">{content(text[:120])}</span>'


def _link(item: Item, css: str, inside: str) -> str:
    """Render a link to the entry itself."""
    return f'<a class="{css}" href="#entry-{item.anchor}" title="Link to this entry">{inside}</a>'


def _user(parts: str | tuple[Part, ...]) -> list[str]:
    text = text_of(parts, "\n\n")
    images = image_figures(parts) if not isinstance(parts, str) else []
    skill = skill_parts(text)
    if skill is None:
        return prose(text, breaks=True) + images
    name, inside, rest = skill
    skill_text = fold(f"Skill {content(name)}", prose(inside))
    return skill_text + prose(rest, breaks=True) + images


def _assistant(story: Story, item: Item, message: AssistantMessage) -> list[str]:
    out: list[str] = []
    for part in message.content:
        match part:
            case Text():
                out += prose(part.text)
            case Thinking():
                out += _thinking(part)
            case ToolCall() if part in item.pending:
                out += tool_card(part, None, story.header.cwd)
    out += (_problem(message), _spent(item))
    return out


def _thinking(part: Thinking) -> list[str]:
    if part.redacted or not part.thinking.strip():
        return ['<p class="empty">Thinking, hidden by the provider</p>']
    first = content(one_line(part.thinking.replace("**", ""), 110))
    summary = f'<summary><span class="name">Thinking</span><span class="peek">{first}</span>'
    start = f'<details class="thinking">{summary}</summary>'
    return [start, *prose(part.thinking), "</details>"]


def _problem(message: AssistantMessage) -> str:
    text = _PROBLEMS.get(message.stop_reason)
    if message.stop_reason == "error":
        text = f"Error: {message.error_message or 'unknown'}"
    return f'<p class="problem">{content(text)}</p>' if text else ""


def _spent(item: Item) -> str:
    usage = item.usage
    if usage is None or not usage.context:
        return ""
    line = spent_line(usage, context=item.kind == "assistant")
    return f'<footer class="spent">{line}</footer>'


def _summary(item: Item, text: str) -> list[str]:
    if item.kind == "compaction":
        before = item.body.get("tokensBefore")
        title = (
            f"Compacted from {tokens(before)} tokens" if isinstance(before, int) else "Compacted"
        )
    else:
        title = "Summary of the branch left behind"
    when = stamp(item.entry.timestamp, item.moment)
    start = f"<details><summary><b>{title}</b>{when}</summary>"
    return [start, *prose(text), "</details>", _spent(item)]


def _extra(item: Item) -> list[str]:
    data = item.body.get("data", item.body.get("replacement"))
    if item.entry.type in ("model_change", "thinking_level_change", "label", "session_info"):
        return []
    shown = data if data is not None else item.body
    return fold("Data", json_block(shown))


def _opaque(item: Item, message: OpaqueMessage) -> list[str]:
    """Render a message of an unknown role or shape: its text, then its data."""
    try:
        body = loads(bytes(message.raw))
    except (ValueError, RecursionError):
        body = {}
    texts = _opaque_texts(body) if isinstance(body, dict) else []
    out = [_head(item, "" if item.kind == "system" else message.role)]
    for name, text in texts:
        out += fold(content(name), prose(text)) if name else prose(text)
    return out if texts else out + json_block(body)


def _opaque_texts(body: dict[str, Any]) -> list[tuple[str, str]]:
    name = "System prompt" if body.get("role") == "system" else ""
    inside, sections = body.get("content"), body.get("sections")
    texts: list[tuple[str, Any]] = [(name, inside)] if isinstance(inside, str) else []
    texts += [(name, part.get("text")) for part in _dicts(inside)]
    if isinstance(sections, dict):
        texts += [(str(title), text) for title, text in sections.items()]
    tools = ", ".join(str(tool.get("name")) for tool in _dicts(body.get("toolsAdded")))
    texts.append(("Tools", tools))
    return [(title, text) for title, text in texts if isinstance(text, str) and text.strip()]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# ---------------------------------------------------------------- small things


def fold(title: str, inside: list[str]) -> list[str]:
    return [f'<details class="fold"><summary>{title}</summary>', *inside, "</details>"]


def prose(text: str, *, breaks: bool = False) -> list[str]:
    """Render Markdown as an element, in pieces; none for a blank text."""
    if not text or text.isspace():
        return []
    return ['<div class="md">', render_markdown(text, breaks=breaks), "</div>"]


def _descriptive(story: Story, item: Item) -> Item:
    """Return the first entry from here that describes the branch."""
    for _ in range(8):
        ways = ways_on(story, item)
        if item.kind not in ("model", "level", "quiet", "branch") or len(ways) != 1:
            break
        item = story.items[ways[0]]
    return item


def _calls_line(message: AssistantMessage) -> str:
    names = ", ".join([call.name for call in message.tool_calls])
    return names or message.error_message or message.stop_reason


def _call_line(call: ToolCall | None, name: str, cwd: str) -> str:
    args = _arguments(call)
    if command := text_field(args, "command"):
        return f"$ {command}"
    place = text_field(args, "path").removeprefix(cwd.rstrip("/") + "/")
    if pattern := text_field(args, "pattern"):
        return f"{name} {pattern}" + (f" in {place}" if place else "")
    return f"{name} {place}".rstrip()


def _quiet_line(item: Item) -> str:
    kind = item.entry.type
    body = {key: value for key, value in item.body.items() if isinstance(value, str)}
    if kind == "label" and not body.get("label"):
        return "Label removed"
    if kind == "context_edit":
        done = "removed from" if item.body.get("replacement") is None else "replaced in"
        return f"Entry {body.get('targetId', '')} {done} the context"
    if kind not in _QUIET_LINES:
        return f"Entry of type {kind}"
    title, *keys = _QUIET_LINES[kind]
    return f"{title}: {'/'.join(body.get(key, '') for key in keys)}"
