"""Render each entry of a session as an article."""

import re
from typing import Any

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
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
from ludolf.page.code import COPY
from ludolf.page.formatting import spent_line, stamp, tokens
from ludolf.page.markdown import render_markdown
from ludolf.page.page_model import Item, Story, usage_of, ways_on
from ludolf.page.text import attribute, content, one_line
from ludolf.page.tool_blocks import bash_card, image_figures, json_block, tool_card

_SKILL = re.compile(r'<skill name="([^"\n]{1,200})"[^>\n]{0,2000}>\n?')
_SKILL_END = "\n</skill>"
_ROLES = {"user": "You", "assistant": "Assistant", "system": "System", "custom": "Extension"}
_MARKS = re.compile(r"[*`]+|(?<!\S)#+ ")
_FORKS_SHOWN = 40


def article(story: Story, item: Item) -> str:
    """Render the article of one entry, with links to its branches if it has several."""
    inside = _inside(story, item)
    css = f"e {item.kind}"
    if item.kind == "assistant" and _continues(story, item):
        css += " on"
    ways = ways_on(story, item)
    fork = fork_nav(story, ways) if len(ways) > 1 else ""
    size = guess_size(item)
    return (
        f'<article class="{css} h{size}" id="entry-{attribute(item.id)}" data-i="{item.index}">'
        f"{inside}{fork}</article>\n"
    )


def fork_nav(story: Story, children: list[int]) -> str:
    """Render links to the branches of a fork."""
    links = []
    for number, index in enumerate(children[:_FORKS_SHOWN], start=1):
        child = story.items[index]
        here = ' aria-current="true"' if index in story.active else ""
        text = content(snippet(story, _descriptive(story, child), 70))
        link = f'href="#entry-{attribute(child.id)}" data-go="{index}"{here}'
        links.append(f"<li><a {link}><b>{number}</b> {text}</a></li>")
    left = len(children) - _FORKS_SHOWN
    more = f"<li>and {left:,} more in the tree</li>" if left > 0 else ""
    title = f"{len(children):,} branches from here"
    return f'<nav class="fork"><span>{title}</span><ol>{"".join(links)}{more}</ol></nav>'


def snippet(story: Story, item: Item, limit: int = 90) -> str:
    """Return an entry as one line, for lists."""
    message = item.message
    match message:
        case UserMessage() | CustomMessage():
            text = _without_skill(text_of(message.content, "\n\n")) or "(image)"
        case AssistantMessage():
            text = text_of(message.content, " ").strip() or _calls_line(message)
        case ToolResultMessage():
            text = _call_line(item.call, message.tool_name, story.header.cwd)
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


def unmarked(text: str, limit: int) -> str:
    """Return the start of a Markdown text as one line, without its markup."""
    start = text[: limit * 6]
    marked = "*" in start or "`" in start or "#" in start
    return one_line(_MARKS.sub("", start) if marked else start, limit)


# ---------------------------------------------------------------- by kind


def _inside(story: Story, item: Item) -> str:
    message = item.message
    match message:
        case UserMessage():
            return _head(item) + _user(message.content) + _spent(item)
        case AssistantMessage():
            return _head(item, f"{message.provider}/{message.model}") + _assistant(story, item)
        case ToolResultMessage():
            return tool_card(item.call, message, story.header.cwd) + _hash(item) + _spent(item)
        case BashExecutionMessage():
            return bash_card(message) + _hash(item)
        case CustomMessage():
            return _head(item, message.custom_type) + _user(message.content)
        case OpaqueMessage():
            return _opaque(item, message)
        case None:
            return _line(item)
        case _:
            return _summary(item, message.summary)


def _head(item: Item, detail: str = "") -> str:
    role = _ROLES.get(item.kind, "Entry")
    more = f'<span class="detail">{content(detail[:120])}</span>' if detail else ""
    label = f'<span class="label">{content(item.label[:120])}</span>' if item.label else ""
    link = (
        f'<a class="link" href="#entry-{attribute(item.id)}" title="Link to this entry">'
        f"{stamp(item.entry.timestamp)}</a>"
    )
    return f'<header><span class="role">{role}</span>{more}{label}{COPY}{link}</header>'


def _hash(item: Item) -> str:
    return (
        f'<a class="link hash" href="#entry-{attribute(item.id)}" title="Link to this entry">#</a>'
    )


def _user(parts: str | tuple[Part, ...]) -> str:
    text = text_of(parts, "\n\n")
    images = "".join(image_figures(parts)) if not isinstance(parts, str) else ""
    skill = _skill(text)
    if skill is None:
        return _markdown(text, breaks=True) + images
    name, inside, rest = skill
    summary = f"<summary>Skill {content(name)}</summary>"
    fold = f'<details class="fold">{summary}{_markdown(inside)}</details>'
    return fold + _markdown(rest, breaks=True) + images


def _skill(text: str) -> tuple[str, str, str] | None:
    """Return name and text of the skill at the start of a prompt, and the rest of the prompt."""
    start = _SKILL.match(text)
    end = text.find(_SKILL_END, start.end()) if start is not None else -1
    if start is None or end < 0:
        return None
    return start[1], text[start.end() : end], text[end + len(_SKILL_END) :]


def _without_skill(text: str) -> str:
    skill = _skill(text)
    return text if skill is None else f"{skill[0]}: {skill[2].strip()}".rstrip(": ")


def _assistant(story: Story, item: Item) -> str:
    message = item.message
    assert isinstance(message, AssistantMessage)
    out: list[str] = []
    for part in message.content:
        match part:
            case Text():
                out.append(_markdown(part.text))
            case Thinking():
                out.append(_thinking(part))
            case ToolCall() if part in item.pending:
                out.append(tool_card(part, None, story.header.cwd))
    return "".join(out) + _problem(message) + _spent(item)


def _thinking(part: Thinking) -> str:
    if part.redacted or not part.thinking.strip():
        return '<p class="empty">Thinking, hidden by the provider</p>'
    first = content(one_line(part.thinking.replace("**", ""), 110))
    summary = f'<summary><span class="name">Thinking</span><span class="peek">{first}</span>'
    return f'<details class="thinking">{summary}</summary>{_markdown(part.thinking)}</details>'


def _problem(message: AssistantMessage) -> str:
    match message.stop_reason:
        case "error":
            text = f"Error: {message.error_message or 'unknown'}"
        case "aborted":
            text = "Stopped before it was finished"
        case "length":
            text = "Cut off at the limit of its length"
        case _:
            return ""
    return f'<p class="problem">{content(text)}</p>'


def _spent(item: Item) -> str:
    usage = usage_of(item)
    if usage is None or not usage.context:
        return ""
    line = spent_line(usage, context=item.kind == "assistant")
    return f'<footer class="spent">{line}</footer>'


def _summary(item: Item, text: str) -> str:
    if item.kind == "compaction":
        before = item.body.get("tokensBefore")
        title = (
            f"Compacted from {tokens(before)} tokens" if isinstance(before, int) else "Compacted"
        )
    else:
        title = "Summary of the branch left behind"
    when = stamp(item.entry.timestamp)
    fold = f"<details><summary><b>{title}</b>{when}</summary>{_markdown(text)}</details>"
    return fold + _spent(item)


def _line(item: Item) -> str:
    return f'<p class="event">{content(_quiet_line(item))}</p>{_extra(item)}{_spent(item)}'


def _extra(item: Item) -> str:
    data = item.body.get("data", item.body.get("replacement"))
    if item.entry.type in ("model_change", "thinking_level_change", "label", "session_info"):
        return ""
    shown = data if data is not None else item.body
    return f'<details class="fold"><summary>Data</summary>{json_block(shown)}</details>'


def _opaque(item: Item, message: OpaqueMessage) -> str:
    """Render a message of an unknown role or shape: its text, then its data."""
    try:
        body = loads(bytes(message.raw))
    except (ValueError, RecursionError):
        body = {}
    texts = _opaque_texts(body) if isinstance(body, dict) else []
    text = "".join(
        f'<details class="fold"><summary>{content(name)}</summary>{_markdown(text)}</details>'
        if name
        else _markdown(text)
        for name, text in texts
    )
    data = "" if texts else json_block(body)
    return _head(item, "" if item.kind == "system" else message.role) + text + data


def _opaque_texts(body: dict[str, Any]) -> list[tuple[str, str]]:
    name = "System prompt" if body.get("role") == "system" else ""
    inside = body.get("content")
    texts = [(name, inside)] if isinstance(inside, str) else []
    texts += [
        (name, part["text"])
        for part in (inside if isinstance(inside, list) else ())
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    sections = body.get("sections")
    for title, text in sections.items() if isinstance(sections, dict) else ():
        if isinstance(text, str):
            texts.append((str(title), text))
    added = body.get("toolsAdded")
    names = [
        str(tool.get("name"))
        for tool in (added if isinstance(added, list) else ())
        if isinstance(tool, dict)
    ]
    texts += [("Tools", ", ".join(names))] if names else []
    return [(title, text) for title, text in texts if text.strip()]


# ---------------------------------------------------------------- small things


def _markdown(text: str, *, breaks: bool = False) -> str:
    return f'<div class="md">{render_markdown(text, breaks=breaks)}</div>' if text.strip() else ""


def _continues(story: Story, item: Item) -> bool:
    """Whether an answer continues the one above it, after its tool results."""
    return item.parent >= 0 and story.items[item.parent].kind in ("tool", "assistant")


def _descriptive(story: Story, item: Item) -> Item:
    """Return the first entry from here that describes the branch."""
    for _ in range(8):
        ways = ways_on(story, item)
        if item.kind not in ("model", "level", "quiet", "branch") or len(ways) != 1:
            break
        item = story.items[ways[0]]
    return item


def _calls_line(message: AssistantMessage) -> str:
    names = ", ".join(call.name for call in message.tool_calls)
    return names or message.error_message or message.stop_reason


def _call_line(call: ToolCall | None, name: str, cwd: str) -> str:
    args = call.arguments if call is not None and isinstance(call.arguments, dict) else {}
    command, pattern, path = (_string(args.get(key)) for key in ("command", "pattern", "path"))
    if command:
        return f"$ {command}"
    place = path.removeprefix(cwd.rstrip("/") + "/")
    if pattern:
        return f"{name} {pattern}" + (f" in {place}" if place else "")
    return f"{name} {place}".rstrip()


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _quiet_line(item: Item) -> str:
    body = {key: value for key, value in item.body.items() if isinstance(value, str)}
    match item.entry.type:
        case "model_change":
            return f"Model: {body.get('provider', '')}/{body.get('modelId', '')}"
        case "thinking_level_change":
            return f"Thinking: {body.get('thinkingLevel', '')}"
        case "label":
            return f"Label: {body['label']}" if body.get("label") else "Label removed"
        case "session_info":
            return f"Session name: {body.get('name', '')}"
        case "context_edit":
            done = "removed from" if item.body.get("replacement") is None else "replaced in"
            return f"Entry {body.get('targetId', '')} {done} the context"
        case "custom":
            return f"Data of an extension: {body.get('customType', '')}"
        case "usage":
            return f"Other use: {body.get('kind', '')}"
        case kind:
            return f"Entry of type {kind}"


def guess_size(item: Item) -> int:
    """Estimate the height, so that the scroll bar is nearly right before anything is drawn.

    The style sheet defines the steps; each is about twice as high as the one before.
    """
    message = item.message
    match message:
        case ToolResultMessage():
            return 2 if len(text_of(message.content)) < 400 else 4
        case UserMessage() | AssistantMessage():
            text = text_of(message.content)
            lines = len(text) // 90 + text.count("\n")
            return next((size for size in range(1, 7) if lines < 2 ** (size + 1)), 7)
        case _:
            return 1
