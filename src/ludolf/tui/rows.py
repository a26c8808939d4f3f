"""Render each stored entry of a session as rows for the scrollback."""

from collections import OrderedDict
from typing import Any

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
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
from ludolf.page.formatting import tokens
from ludolf.page.text import one_line
from ludolf.session.entries import entry_of, message_of, role_of, text_field
from ludolf.session.views import skill_parts
from ludolf.tui.cards import ToolRun, shell_rows, tool_card
from ludolf.tui.cells import cut, plain, width
from ludolf.tui.images import ImageProtocol, image_rows
from ludolf.tui.markdown import markdown_rows
from ludolf.tui.notices import NoticeLine
from ludolf.tui.theme import Theme, bold

# Calls whose results may still come.
_MOST_CALLS = 1_000
_NOTICE_CHARACTERS = 2_000
_QUIET = {
    "model_change": ("Model", ("provider", "modelId")),
    "thinking_level_change": ("Thinking", ("thinkingLevel",)),
    "session_info": ("Session name", ("name",)),
}
# Data of extensions and usage without a message are not shown in a conversation.
_SILENT = ("custom", "usage")


class EntryRows:
    """Renders entries in their order; remembers tool calls until their results come.

    Entries are separated by a blank row; notices that follow each other are not. `cells`, `theme`
    and `show_thinking` may change between entries.
    """

    def __init__(
        self,
        theme: Theme,
        cells: int,
        *,
        cwd: str = "",
        protocol: ImageProtocol | None = None,
        show_thinking: bool = False,
    ) -> None:
        self.theme = theme
        self.cells = cells
        self.cwd = cwd
        self.protocol: ImageProtocol | None = protocol
        self.show_thinking = show_thinking
        self._calls: OrderedDict[str, ToolCall] = OrderedDict()
        self._last = ""

    def rows(
        self,
        entry: dict[str, Any],
        *,
        streamed: bool = False,
        seconds: float | None = None,
        sender: str = "",
    ) -> list[str]:
        """Render an entry, as `get_entries` returns it.

        Args:
            entry: The JSON of the entry.
            streamed: Omit text and thinking of an answer that were printed while they arrived.
            seconds: The time of a tool call or a command, if known.
            sender: The name of another client that sent a prompt.
        """
        try:
            stored = entry_of(entry)
        except RecursionError:
            return self.notice(NoticeLine("An entry is nested too deeply to be shown", "warning"))
        if stored is None:
            return []
        if not role_of(stored):
            return self._quiet(entry, stored.type)
        match message := message_of(stored):
            case UserMessage():
                return self.prompt(message.content, sender=sender)
            case AssistantMessage():
                return self._answer(message, streamed)
            case ToolResultMessage():
                return self._spaced(self._result(entry, message, seconds), "card")
            case BashExecutionMessage():
                return self._spaced(self._shell(message, seconds), "card")
            case CustomMessage():
                return self._custom(message)
            case _:
                return self.notice(NoticeLine(_summary_line(message)))

    def prompt(self, content: str | tuple[Part, ...], *, sender: str = "") -> list[str]:
        """Render a prompt, with the name of the client if another one sent it."""
        text = text_of(content, "\n\n")
        skill = skill_parts(text)
        if skill is not None:
            text = f"[skill {skill[0]}]\n{skill[2].strip()}".rstrip()
        room = max(1, self.cells - 2)
        inside = markdown_rows(text, room, self.theme, breaks=True) or [""]
        if sender:
            inside.insert(0, cut(f"{bold(_one_row(sender[:80]))}:", room))
        sign = self.theme.paint("accent", "❯")
        rows = [f"{sign} {inside[0]}", *(f"  {row}" if row else "" for row in inside[1:])]
        return self._spaced(rows + self._images(content), "prompt")

    def notice(self, notice: NoticeLine) -> list[str]:
        """Render one line about an event."""
        text = _one_row(one_line(notice.text, _NOTICE_CHARACTERS))
        room = max(1, self.cells - 2)
        shown = text if width(text) <= room else f"{cut(text, room - 1)}…"
        return self._spaced([self.theme.paint(notice.role, f"· {shown}")], "notice")

    def separation(self) -> list[str]:
        """Return the blank row before an answer that the caller renders as it arrives."""
        return self._spaced([], "answer")

    def _spaced(self, rows: list[str], kind: str) -> list[str]:
        gap = self._last not in ("", kind if kind == "notice" else "")
        self._last = kind
        return ["", *rows] if gap else rows

    def _answer(self, message: AssistantMessage, streamed: bool) -> list[str]:
        out: list[str] = []
        for part in message.content:
            match part:
                case ToolCall():
                    self._remember(part)
                case Text() if not streamed and part.text.strip():
                    rows = markdown_rows(part.text, self.cells, self.theme)
                    out += self._spaced(rows, "answer")
                case Thinking() if not streamed:
                    out += self.thinking(part.thinking, hidden=part.redacted)
        return out + self._problem(message)

    def thinking(self, text: str, *, hidden: bool = False) -> list[str]:
        """Render thinking: one line, or the whole text if `show_thinking` is set."""
        if hidden or not text.strip():
            return self.notice(NoticeLine("Thinking, hidden by the provider", "thinkingText"))
        if not self.show_thinking:
            first = one_line(text.replace("**", ""), 200)
            return self.notice(NoticeLine(f"Thinking: {first}", "thinkingText"))
        rows = markdown_rows(text, max(1, self.cells - 2), self.theme)
        bar = self.theme.paint("thinkingText", "┊")
        return self._spaced([f"{bar} {row}".rstrip(" ") for row in rows], "thinking")

    def _problem(self, message: AssistantMessage) -> list[str]:
        match message.stop_reason:
            case "error":
                why = message.error_message or "unknown"
                return self.notice(NoticeLine(f"Error: {why}", "error"))
            case "aborted":
                return self.notice(NoticeLine("Stopped before it was finished", "warning"))
            case "length":
                return self.notice(NoticeLine("Cut off at the limit of its length", "warning"))
            case _:
                return []

    def _remember(self, call: ToolCall) -> None:
        self._calls[call.id] = call
        while len(self._calls) > _MOST_CALLS:
            self._calls.popitem(last=False)

    def _result(
        self, entry: dict[str, Any], message: ToolResultMessage, seconds: float | None
    ) -> list[str]:
        call = self._calls.pop(message.tool_call_id, None)
        run = ToolRun(
            name=message.tool_name,
            args=call.arguments if call is not None else None,
            is_error=message.is_error,
            seconds=seconds,
            cwd=self.cwd,
        )
        run.take(entry.get("message"))
        return tool_card(run, self.cells, self.theme, self.protocol)

    def _shell(self, message: BashExecutionMessage, seconds: float | None) -> list[str]:
        chips = []
        if message.cancelled:
            chips.append(self.theme.paint("error", "cancelled"))
        elif message.exit_code:
            chips.append(self.theme.paint("error", f"exit {message.exit_code}"))
        if message.exclude_from_context:
            chips.append(self.theme.paint("dim", "not sent to the model"))
        if message.truncated:
            chips.append(self.theme.paint("dim", "output shortened"))
        args = {"command": message.command}
        run = ToolRun(name="bash", args=args, text=message.output, seconds=seconds)
        return shell_rows(run, self.cells, self.theme, chips)

    def _custom(self, message: CustomMessage) -> list[str]:
        if not message.display:
            return []
        label = self.theme.paint("customMessageLabel", f"[{_one_row(message.custom_type[:80])}]")
        inside = markdown_rows(text_of(message.content, "\n\n"), self.cells, self.theme)
        rows = [cut(label, self.cells), *inside, *self._images(message.content)]
        return self._spaced(rows, "custom")

    def _images(self, content: str | tuple[Part, ...]) -> list[str]:
        rows: list[str] = []
        for part in content if not isinstance(content, str) else ():
            if isinstance(part, Image):
                rows += image_rows(part, max(1, self.cells - 2), self.theme, self.protocol)
        return rows

    def _quiet(self, entry: dict[str, Any], kind: str) -> list[str]:
        if kind in _SILENT:
            return []
        if kind == "label":
            label = text_field(entry, "label")
            return self.notice(NoticeLine(f"Label: {label}" if label else "Label removed"))
        if kind == "branch_summary":
            return self.notice(NoticeLine("Another branch of the conversation"))
        if kind not in _QUIET:
            return self.notice(NoticeLine(f"Entry of type {kind}"))
        title, names = _QUIET[kind]
        return self.notice(
            NoticeLine(f"{title}: {'/'.join(text_field(entry, each) for each in names)}")
        )


def _summary_line(
    message: CompactionSummaryMessage | BranchSummaryMessage | OpaqueMessage,
) -> str:
    match message:
        case CompactionSummaryMessage():
            return f"Compacted from {tokens(message.tokens_before)} tokens"
        case BranchSummaryMessage():
            return f"Summary of the branch left: {message.summary}"
        case OpaqueMessage():
            return f"Message of role {message.role}"


def _one_row(text: str) -> str:
    return plain(text).replace("\n", " ")
