"""Render Markdown as HTML; raw HTML is escaped."""

from ludolf.page.blocks import (
    CodeBlock,
    Heading,
    ListBlock,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    TableBlock,
    parse_markdown,
)
from ludolf.page.code import code_block
from ludolf.page.inline import has_markup, write_inline
from ludolf.page.text import attribute, content


def render_markdown(text: str, *, breaks: bool = False) -> str:
    """Render a text as HTML. `breaks` renders line ends in paragraphs as line breaks."""
    return (_BREAKING_BLOCKS if breaks else _FLOWING_BLOCKS).render(parse_markdown(text))


def render_inline(text: str, *, breaks: bool = False) -> str:
    """Render one paragraph as HTML. `breaks` renders line ends as line breaks."""
    return write_inline(text, _BREAKING if breaks else _FLOWING)


class _HtmlInline:
    """Write inline markup as HTML."""

    hard = "<br>\n"
    tag_break = "<br>"
    text = staticmethod(content)

    def __init__(self, soft: str) -> None:
        self.soft = soft

    def paragraph(self, text: str) -> str:
        if has_markup(text):
            return write_inline(text, self)
        # All lines at once: escaping leaves line ends alone.
        return content(text).replace("\n", self.soft)

    def code(self, text: str) -> str:
        return f"<code>{content(text)}</code>"

    def opening(self, tag: str) -> str:
        return f"<{tag}>"

    def closing(self, tag: str) -> str:
        return f"</{tag}>"

    def link(self, url: str, inside: str) -> str:
        href = attribute(url)
        return f'<a href="{href}" rel="noopener noreferrer nofollow" target="_blank">{inside}</a>'

    def dead_link(self, url: str, inside: str) -> str:
        return f'<span class="dead" title="{attribute(url[:300])}">{inside}</span>'

    def image(self, source: str, label: str) -> str:
        return f'<img src="{source}" alt="{attribute(label)}">'

    def remote_image(self, inside: str) -> str:
        return f'<span class="remote">image</span> {inside}'


_FLOWING = _HtmlInline("\n")
_BREAKING = _HtmlInline("<br>\n")


class _HtmlBlocks:
    """Write blocks as HTML; headings and cells never have line breaks."""

    def __init__(self, inline: _HtmlInline) -> None:
        self._inline = inline

    def render(self, blocks: list[MarkdownBlock]) -> str:
        return "".join(map(self._block, blocks))

    def _block(self, block: MarkdownBlock) -> str:
        match block:
            case Paragraph():
                text = self._inline.paragraph(block.text)
                return text if block.tight else f"<p>{text}</p>"
            case Heading():
                # The page has its own h1 and h2; headings of a message start at h3.
                tag = f"h{min(block.level + 2, 6)}"
                return f'<{tag} class="l{block.level}">{render_inline(block.text)}</{tag}>'
            case CodeBlock():
                return code_block(block.text, block.language)
            case Rule():
                return "<hr>"
            case TableBlock():
                return _table(block)
            case Quote():
                return f"<blockquote>{self.render(block.blocks)}</blockquote>"
            case ListBlock():
                return self._list(block)

    def _list(self, block: ListBlock) -> str:
        out: list[str] = []
        for item in block.items:
            start = "<li>"
            if item.done is not None:
                sign = "☑" if item.done else "☐"
                start = f'<li class="task"><span class="box">{sign}</span> '
            out.append(f"{start}{self.render(item.blocks)}</li>")
        if block.number is None:
            return f"<ul>{''.join(out)}</ul>"
        first = f' start="{block.number}"' if block.number != 1 else ""
        return f"<ol{first}>{''.join(out)}</ol>"


_FLOWING_BLOCKS = _HtmlBlocks(_FLOWING)
_BREAKING_BLOCKS = _HtmlBlocks(_BREAKING)


def _table(table: TableBlock) -> str:
    classes = [f' class="{align}"' if align else "" for align in table.aligns]
    body = "".join(_row(cells, classes, "td") for cells in table.rows)
    inside = f"<thead>{_row(table.head, classes, 'th')}</thead><tbody>{body}</tbody>"
    return f'<div class="table"><table>{inside}</table></div>'


def _row(cells: list[str], classes: list[str], tag: str) -> str:
    # Short rows are not padded: a wide head over many of them would add too many cells.
    out = (
        f"<{tag}{name}>{render_inline(cell)}</{tag}>"
        for cell, name in zip(cells, classes, strict=False)
    )
    return f"<tr>{''.join(out)}</tr>"
