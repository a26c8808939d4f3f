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

    name: str
    kind: HookKind
    payload: type[Payload]
    keys: tuple[str, ...] = ()
    rule: MergeRule | None = None
    blocks: bool = False


def _notify(payload: type[Payload]) -> Hook:
    return Hook(_name(payload), "notify", payload)


def _transform(payload: type[Payload], rule: MergeRule | None, *keys: str) -> Hook:
    return Hook(_name(payload), "transform", payload, keys, rule)


def _verdict(payload: type[Payload], rule: MergeRule, *keys: str, blocks: bool = False) -> Hook:
    return Hook(_name(payload), "verdict", payload, keys, rule, blocks)


def _name(payload: type[Payload]) -> str:
    return str(payload.__struct_config__.tag)


_ALL = (
    _verdict(payloads.ProjectTrust, rules.trust, "trusted", "remember"),
    _transform(
        payloads.ResourcesDiscover, rules.resources, "skill_paths", "prompt_paths", "theme_paths"
    ),
    _notify(payloads.SessionStart),
    _notify(payloads.SessionInfoChanged),
    _verdict(payloads.SessionBeforeSwitch, rules.decision(answers.SwitchAnswer), "cancel"),
    _verdict(
        payloads.SessionBeforeFork,
        rules.decision(answers.ForkDecision),
        "cancel",
        "skip_conversation_restore",
    ),
    _verdict(payloads.SessionBeforeCompact, rules.compact, "cancel", "compaction"),
    _notify(payloads.SessionCompact),
    _notify(payloads.SessionCompactFailed),
    _verdict(
        payloads.SessionBeforeTree,
        rules.decision(answers.TreeDecision),
        *("cancel", "summary", "custom_instructions", "replace_instructions", "label"),
    ),
    _notify(payloads.SessionTree),
    _notify(payloads.SessionShutdown),
    _transform(payloads.Input, rules.text_input, "action", "text", "images"),
    _transform(
        payloads.BeforeAgentStart,
        rules.before_agent_start,
        *("message", "system_prompt", "system_prompt_options"),
    ),
    _notify(payloads.AgentStart),
    _notify(payloads.AgentEnd),
    _transform(payloads.AgentBeforeSettle, rules.boundary, "entries", "continue"),
    _notify(payloads.AgentSettled),
    _notify(payloads.TurnStart),
    _transform(payloads.TurnEnd, rules.boundary, "entries", "continue"),
    _notify(payloads.MessageStart),
    _notify(payloads.MessageUpdate),
    _transform(payloads.MessageEnd, rules.message_end, "message"),
    _notify(payloads.ToolExecutionStart),
    _notify(payloads.ToolExecutionUpdate),
    _notify(payloads.ToolExecutionEnd),
    _verdict(
        payloads.ToolCalled,
        rules.tool_call,
        *("input", "block", "reason", "terminate"),
        blocks=True,
    ),
    _transform(payloads.ToolReturned, rules.tool_result, "content", "details", "is_error", "usage"),
    _verdict(payloads.UserBash, rules.user_bash, "result", "operations", blocks=True),
    _transform(payloads.ContextBuilt, rules.context, "messages"),
    _transform(payloads.ContextWithSystem, rules.context_with_system, "messages", "system_prompt"),
    # The answer is the complete new payload, not a dict of keys.
    _transform(payloads.BeforeProviderRequest, None),
    _transform(payloads.BeforeProviderHeaders, rules.provider_headers, "headers"),
    _notify(payloads.AfterProviderResponse),
    _notify(payloads.ModelSelect),
    _notify(payloads.ThinkingLevelSelect),
    _transform(payloads.CacheWarmingDecision, rules.cache_warming, "action"),
    _notify(payloads.UiPromptStart),
    _notify(payloads.UiPromptEnd),
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
