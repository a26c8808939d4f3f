"""Table of extension events: payload, kind, merge rule and answer.

notify     calls every handler; answers are ignored
transform  passes the changed payload from handler to handler
verdict    calls handlers until one decides
"""

from typing import Any, Literal

import msgspec

from ludolf.extensions import answers, payloads
from ludolf.extensions import merge as rules
from ludolf.extensions.merge import MergeRule
from ludolf.extensions.payloads import Payload

HookKind = Literal["notify", "transform", "verdict"]


class Hook(msgspec.Struct, frozen=True):
    """One event. `blocks`: an error in a handler denies the action instead of being skipped."""

    payload: type[Payload]
    kind: HookKind = "notify"
    rule: MergeRule | None = None
    # The TypedDict of its answers.
    answer: Any = None
    blocks: bool = False

    @property
    def name(self) -> str:
        return str(self.payload.__struct_config__.tag)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys that an answer may have."""
        return tuple(self.answer.__annotations__) if self.answer is not None else ()


_switch = rules.decision(answers.SwitchAnswer)
_fork = rules.decision(answers.ForkDecision)
_tree = rules.decision(answers.TreeDecision)
_ALL = (
    Hook(payloads.ProjectTrust, "verdict", rules.trust, answers.TrustAnswer),
    Hook(payloads.ResourcesDiscover, "transform", rules.resources, answers.ResourcesAnswer),
    Hook(payloads.SessionStart),
    Hook(payloads.SessionInfoChanged),
    Hook(payloads.SessionBeforeSwitch, "verdict", _switch, answers.CancelAnswer),
    Hook(payloads.SessionBeforeFork, "verdict", _fork, answers.ForkAnswer),
    Hook(payloads.SessionBeforeCompact, "verdict", rules.compact, answers.CompactAnswer),
    Hook(payloads.SessionCompact),
    Hook(payloads.SessionCompactFailed),
    Hook(payloads.SessionBeforeTree, "verdict", _tree, answers.TreeAnswer),
    Hook(payloads.SessionTree),
    Hook(payloads.SessionShutdown),
    Hook(payloads.Input, "transform", rules.text_input, answers.InputAnswer),
    Hook(
        payloads.BeforeAgentStart,
        "transform",
        rules.before_agent_start,
        answers.BeforeAgentStartAnswer,
    ),
    Hook(payloads.AgentStart),
    Hook(payloads.AgentEnd),
    Hook(payloads.AgentBeforeSettle, "transform", rules.boundary, answers.BoundaryAnswer),
    Hook(payloads.AgentSettled),
    Hook(payloads.TurnStart),
    Hook(payloads.TurnEnd, "transform", rules.boundary, answers.BoundaryAnswer),
    Hook(payloads.MessageStart),
    Hook(payloads.MessageUpdate),
    Hook(payloads.MessageEnd, "transform", rules.message_end, answers.MessageEndAnswer),
    Hook(payloads.ToolExecutionStart),
    Hook(payloads.ToolExecutionUpdate),
    Hook(payloads.ToolExecutionEnd),
    Hook(payloads.ToolCalled, "verdict", rules.tool_call, answers.ToolCallAnswer, blocks=True),
    Hook(payloads.ToolReturned, "transform", rules.tool_result, answers.ToolResultAnswer),
    Hook(payloads.UserBash, "verdict", rules.user_bash, answers.UserBashAnswer, blocks=True),
    Hook(payloads.ContextBuilt, "transform", rules.context, answers.MessagesAnswer),
    Hook(payloads.ContextWithSystem, "transform", rules.context_with_system, answers.ContextAnswer),
    # The answer is the complete new payload, not a dict of keys.
    Hook(payloads.BeforeProviderRequest, "transform"),
    Hook(payloads.BeforeProviderHeaders, "transform", rules.headers, answers.HeadersAnswer),
    Hook(payloads.AfterProviderResponse),
    Hook(payloads.ModelSelect),
    Hook(payloads.ThinkingLevelSelect),
    Hook(
        payloads.CacheWarmingDecision,
        "transform",
        rules.cache_warming,
        answers.CacheWarmingAnswer,
    ),
    Hook(payloads.UiPromptStart),
    Hook(payloads.UiPromptEnd),
)
HOOKS: dict[str, Hook] = {hook.name: hook for hook in _ALL}


def find_hook(name: str) -> Hook:
    """Return the hook of an event name.

    Raises:
        ValueError: the event is unknown; the text suggests a similar name.
    """
    hook = HOOKS.get(name)
    if hook is not None:
        return hook
    from difflib import get_close_matches

    near: list[Any] = get_close_matches(name, HOOKS, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise ValueError(f'Unknown event "{name}".{hint}')
