"""Python SDK: run the agent inside a program. See docs/sdk.md.

>>> import asyncio
>>> from ludolf import create_session
>>> async def main() -> str:
...     async with create_session(model="ludolf/offline") as session:
...         answer = await session.prompt("hello")
...         return answer.text
>>> asyncio.run(main())
'Hello! I am the offline demo model of Ludolf...'
"""

from ludolf.agent.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnEnd,
    TurnStart,
)
from ludolf.ai.builtin.scripted import (
    PlaybackBlock,
    Scripted,
    ScriptedFailure,
    ScriptedReply,
    ScriptedUsage,
)
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart
from ludolf.ai.gate import GateReport, RequestGate
from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ludolf.ai.models import Model, ModelCost
from ludolf.base import CommandError, ConfigError, LudolfError
from ludolf.extensions.providers import ModelContext, ModelOptions
from ludolf.extensions.session_view import EntryView, SessionView, TreeNodeView
from ludolf.functions.results import ToolError, ToolResult
from ludolf.protocol.answer import Answer, PromptFailed
from ludolf.protocol.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    LimitReached,
)
from ludolf.protocol.results import BashResult, Limits, Moved
from ludolf.sdk import sync
from ludolf.sdk.backend import ModelBackend
from ludolf.sdk.options import SessionOptions
from ludolf.sdk.run import Run, SessionEvent
from ludolf.sdk.session import AgentSession, create_session
from ludolf.sdk.structured import NotAnswered
from ludolf.session.finder import SessionRecord
from ludolf.session.stats import SessionStats
from ludolf.session.views import ForkMessage

__all__ = [
    "AgentEnd",
    "AgentSession",
    "AgentSettled",
    "AgentStart",
    "Answer",
    "AssistantMessage",
    "AutoRetryEnd",
    "AutoRetryStart",
    "BashResult",
    "BlockDelta",
    "BlockEnd",
    "BlockStart",
    "CommandError",
    "CompactionEnd",
    "CompactionStart",
    "ConfigError",
    "EntryView",
    "ForkMessage",
    "GateReport",
    "Image",
    "LimitReached",
    "Limits",
    "LudolfError",
    "MessageEnd",
    "MessageStart",
    "Model",
    "ModelBackend",
    "ModelContext",
    "ModelCost",
    "ModelOptions",
    "Moved",
    "NotAnswered",
    "PlaybackBlock",
    "PromptFailed",
    "RequestGate",
    "Run",
    "Scripted",
    "ScriptedFailure",
    "ScriptedReply",
    "ScriptedUsage",
    "SessionEvent",
    "SessionOptions",
    "SessionRecord",
    "SessionStats",
    "SessionView",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolEnd",
    "ToolError",
    "ToolResult",
    "ToolResultMessage",
    "ToolStart",
    "ToolUpdate",
    "TreeNodeView",
    "TurnEnd",
    "TurnStart",
    "Usage",
    "UserMessage",
    "create_session",
    "sync",
]
