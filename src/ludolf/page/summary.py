"""Render the top of the page: facts and totals of the session, its system prompt and tools."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ludolf.ai.messages import UserMessage
from ludolf.page.chart import Chart, chart_html
from ludolf.page.entries import fold, prose, snippet
from ludolf.page.formatting import count, dollars, duration, stamp, time_element, tokens
from ludolf.page.page_model import Story
from ludolf.page.text import content, one_line
from ludolf.session.entries import time_ms


class ToolSpecLike(Protocol):
    """The properties of a tool that the page shows."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...


def title(story: Story) -> str:
    """Return the session's name, else its first prompt."""
    if story.name:
        return one_line(story.name, 120)
    for item in story.items:
        if isinstance(item.message, UserMessage):
            text = snippet(story, item)
            if text:
                return text
    return "Session"


def summary_html(story: Story, chart: Chart) -> str:
    models = [name for name in story.figures.spending.by_model if "/" in name]
    facts = [
        _fact("Session", f'<code class="id">{content(story.header.id[:80])}</code>'),
        _fact("Folder", f"<code>{content(one_line(story.header.cwd, 200))}</code>"),
        _fact("Started", stamp(story.header.timestamp, time_ms(story.header.timestamp))),
        _fact("Last entry", _last_time(story)),
        _fact("Models", _models(models)),
    ]
    if story.header.parent_session:
        parent = content(one_line(story.header.parent_session, 300))
        facts.append(_fact("Forked from", f"<code>{parent}</code>"))
    return (
        f'<h1 dir="auto">{content(title(story))}</h1>'
        f'<dl class="facts">{"".join(facts)}</dl>'
        f'<ul class="figures">{"".join(_figures(story))}</ul>'
        f"{chart_html(chart)}{_by_model(story)}"
    )


def prompt_html(system_prompt: str | None, tools: Sequence[ToolSpecLike]) -> str:
    """Render the system prompt and the tools, folded; "" if neither is known."""
    out: list[str] = []
    if system_prompt and system_prompt.strip():
        out += fold("System prompt", prose(system_prompt))
    if tools:
        out += fold(count(len(tools), "tool"), [*map(_tool, tools)])
    return "".join(out)


def _figures(story: Story) -> list[str]:
    figures = story.figures
    spent, kinds = figures.spending.total, figures.kinds
    shown = [
        (f"{kinds['user']:,}", "prompt" if kinds["user"] == 1 else "prompts"),
        (f"{kinds['assistant']:,}", "answer" if kinds["assistant"] == 1 else "answers"),
        (f"{figures.tool_calls:,}", "tool call" if figures.tool_calls == 1 else "tool calls"),
        (tokens(spent.input), "tokens in"),
        (tokens(spent.output), "tokens out"),
    ]
    if spent.cache_read or spent.cache_write:
        shown.append((tokens(spent.cache_read), "from cache"))
        shown.append((tokens(spent.cache_write), "to cache"))
    shown.append((dollars(spent.cost), "cost"))
    for number, one, many in (
        (story.branches, "branch", "branches"),
        (kinds["compaction"], "compaction", "compactions"),
        (kinds["bash"], "shell run", "shell runs"),
    ):
        if number > (one == "branch"):
            shown.append((f"{number:,}", one if number == 1 else many))
    return [f"<li><b>{value}</b> <span>{name}</span></li>" for value, name in shown]


def _last_time(story: Story) -> str:
    times = [item.moment for item in story.items[-50:]]
    last, first = max(times, default=0), time_ms(story.header.timestamp)
    if not last:
        return "–"
    after = f" ({duration(last - first)} later)" if 0 < first < last else ""
    return time_element(last) + after


def _models(names: list[str]) -> str:
    shown = ", ".join(f"<code>{content(one_line(name, 100))}</code>" for name in names[:8])
    return shown + (f" and {len(names) - 8:,} more" if len(names) > 8 else "") or "–"


def _by_model(story: Story) -> str:
    spent = story.figures.spending.by_model
    if len(spent) < 2:
        return ""
    rows = [
        f"<tr><td>{content(one_line(name, 100))}</td>"
        + "".join(
            f'<td class="right">{tokens(value)}</td>'
            for value in (one.input, one.output, one.cache_read, one.cache_write)
        )
        + f'<td class="right">{dollars(one.cost.total)}</td></tr>'
        for name, one in list(spent.items())[:50]
    ]
    names = ("Model", "In", "Out", "From cache", "To cache", "Cost")
    head = "".join(f"<th>{name}</th>" for name in names)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return "".join(fold("By model", [f'<div class="table">{table}</div>']))


def _tool(tool: ToolSpecLike) -> str:
    listed = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    names = required if isinstance(required, list | tuple) else ()
    rows = "".join(
        _parameter(str(name), about, name in names)
        for name, about in (listed.items() if isinstance(listed, Mapping) else ())
    )
    list_html = f"<dl>{rows}</dl>" if rows else ""
    about = f"<p>{content(tool.description)}</p>"
    return f'<div class="spec"><h3>{content(tool.name)}</h3>{about}{list_html}</div>'


def _parameter(name: str, about: Any, needed: bool) -> str:
    schema = about if isinstance(about, Mapping) else {}
    kind = content(str(schema.get("type", "any"))[:60])
    text = content(str(schema.get("description", "")))
    words = f"{kind}, {'required' if needed else 'optional'}"
    return f"<dt><code>{content(name)}</code> <small>{words}</small></dt><dd>{text}</dd>"


def _fact(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"
