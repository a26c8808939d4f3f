"""Rows of a conversation in the theme and width of the terminal."""

from typing import Any

from ludolf.tui.cards import running_tool, tool_card
from ludolf.tui.cells import cut, plain, wrap
from ludolf.tui.conversation import RunningCall
from ludolf.tui.markdown import AnswerStream
from ludolf.tui.rows import EntryRows
from ludolf.tui.theme import Theme

Frame = dict[str, Any]
