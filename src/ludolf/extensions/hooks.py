"""Table of extension events: kind, payload, answer keys and merge rule.

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
    keys: tuple[str, ...] = ()
    blocks: bool = False

    @property
    def name(self) -> str:
        return str(self.payload.__struct_config__.tag)


_ALL = (
    Hook(payloads.ProjectTrust, "verdict", rules.trust, ("trusted", "remember")),
    Hook(
        payloads.ResourcesDiscover,
        "transform",
        rules.resources,
        ("skill_paths", "prompt_paths", "theme_paths"),
    ),
    Hook(payloads.SessionStart),
    Hook(payloads.SessionInfoChanged),
    Hook(
        payloads.SessionBeforeSwitch, "verdict", rules.decision(answers.SwitchAnswer), ("cancel",)
    ),
    Hook(
        payloads.SessionBeforeFork,
        "verdict",
        rules.decision(answers.ForkDecision),
        ("cancel", "skip_conversation_restore"),
    ),
    Hook(payloads.SessionBeforeCompact, "verdict", rules.compact, ("cancel", "compaction")),
    Hook(payloads.SessionCompact),
    Hook(payloads.SessionCompactFailed),
    Hook(
        payloads.SessionBeforeTree,
        "verdict",
        rules.decision(answers.TreeDecision),
        ("cancel", "summary", "custom_instructions", "replace_instructions", "label"),
    ),
    Hook(payloads.SessionTree),
    Hook(payloads.SessionShutdown),
    Hook(payloads.Input, "transform", rules.text_input, ("action", "text", "images")),
    Hook(
        payloads.BeforeAgentStart,
        "transform",
        rules.before_agent_start,
        ("message", "system_prompt", "system_prompt_options"),
    ),
    Hook(payloads.AgentStart),
    Hook(payloads.AgentEnd),
    Hook(payloads.AgentBeforeSettle, "transform", rules.boundary, ("entries", "continue")),
    Hook(payloads.AgentSettled),
    Hook(payloads.TurnStart),
    Hook(payloads.TurnEnd, "transform", rules.boundary, ("entries", "continue")),
    Hook(payloads.MessageStart),
    Hook(payloads.MessageUpdate),
    Hook(payloads.MessageEnd, "transform", rules.message_end, ("message",)),
    Hook(payloads.ToolExecutionStart),
    Hook(payloads.ToolExecutionUpdate),
    Hook(payloads.ToolExecutionEnd),
    Hook(
        payloads.ToolCalled,
        "verdict",
        rules.tool_call,
        ("input", "block", "reason", "terminate"),
        blocks=True,
    ),
    Hook(
        payloads.ToolReturned,
        "transform",
        rules.tool_result,
        ("content", "details", "is_error", "usage"),
    ),
    Hook(payloads.UserBash, "verdict", rules.user_bash, ("result", "operations"), blocks=True),
    Hook(payloads.ContextBuilt, "transform", rules.context, ("messages",)),
    Hook(
        payloads.ContextWithSystem,
        "transform",
        rules.context_with_system,
        ("messages", "system_prompt"),
    ),
    # The answer is the complete new payload, not a dict of keys.
    Hook(payloads.BeforeProviderRequest, "transform"),
    Hook(payloads.BeforeProviderHeaders, "transform", rules.provider_headers, ("headers",)),
    Hook(payloads.AfterProviderResponse),
    Hook(payloads.ModelSelect),
    Hook(payloads.ThinkingLevelSelect),
    Hook(payloads.CacheWarmingDecision, "transform", rules.cache_warming, ("action",)),
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
