"""Random plays: what a model may say, what a host may do, and when either is held up."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from ludolf.ai.builtin.scripted import ScriptedFailure, ScriptedReply, ScriptedUsage
from tests.loop.stage import call, calls, fails, say, words


class Step(msgspec.Struct, frozen=True):
    """One thing a host does. `pick` chooses among what there is at that moment."""

    name: str
    pick: int = 0
    pause: int = 0
    how: str = ""


class Play(msgspec.Struct, frozen=True):
    replies: tuple[ScriptedReply, ...]
    steps: tuple[Step, ...]
    waits: tuple[int, ...]


_TOKENS = st.sampled_from([0, 0, 0, 20, 2_000]).map(
    lambda n: ScriptedUsage(input=n, output=n // 20)
)
_STOPS = st.sampled_from([None, None, None, "length"])


def _text() -> st.SearchStrategy[ScriptedReply]:
    return st.builds(
        say,
        st.sampled_from(["fine", "a longer answer " * 6, words(120), " "]),
        usage=_TOKENS,
        stop=_STOPS,
    )


def _tools() -> st.SearchStrategy[ScriptedReply]:
    names = st.lists(
        st.sampled_from(["echo", "echo", "hold", "fail", "last", "solo", "nowhere"]),
        min_size=1,
        max_size=3,
    )
    return st.builds(_calls, names, usage=_TOKENS, stop=_STOPS)


def _calls(names: list[str], **about: Any) -> ScriptedReply:
    return calls(*(call(name, f"c{at}", name="gate") for at, name in enumerate(names)), **about)


def _failures() -> st.SearchStrategy[ScriptedReply]:
    return st.sampled_from(
        [
            fails("overloaded"),
            fails("overloaded"),
            fails("no such thing"),
            fails("prompt is too long"),
            fails(ScriptedFailure(text="slow down", status=429, retry_after=0.001)),
            fails(ScriptedFailure(text="slow down", status=429, retry_after=600)),
            say("half", error="overloaded"),
            say("half", error="no such thing"),
        ]
    )


def _endless() -> st.SearchStrategy[ScriptedReply]:
    return st.sampled_from(
        [say("half", hang=True), say("", delay_ms=60_000), calls(call("echo", "c0"), hang=True)]
    )


_REPLIES = st.one_of(*3 * (_text(),), *4 * (_tools(),), *2 * (_failures(),), _endless())
_COMMON = ["prompt", "run"] * 10 + ["steer", "follow_up", "open", "open", "abort", "settle"] * 3
_RARE = [
    "queue_prompt",
    "queue_prompt",
    "abort_and_prompt",
    "abort_retry",
    "abort_bash",
    "bash",
    "compact",
    "compact",
    "new_session",
    "switch_session",
    "fork",
    "clone",
    "set_model",
    "set_thinking_level",
    "set_steering_mode",
    "set_follow_up_mode",
    "set_auto_compaction",
    "set_auto_retry",
    "set_session_name",
    "set_limits",
    "clear_queue",
    "navigate_tree",
    "summarise_tree",
    "reload",
    "get_state",
    "get_messages",
    "get_session_stats",
    "get_tree",
    "get_entries",
    "get_fork_messages",
    "get_last_assistant_text",
]
_PAUSES = st.one_of(st.just(0), st.integers(0, 4), st.integers(0, 40))


def _steps() -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        name=st.sampled_from([*_COMMON, *_RARE]),
        pick=st.integers(0, 7),
        pause=_PAUSES,
        how=st.sampled_from(["steer", "followUp"]),
    )


def plays() -> st.SearchStrategy[Play]:
    return st.builds(
        Play,
        replies=st.lists(_REPLIES, min_size=4, max_size=16).map(tuple),
        steps=st.lists(_steps(), min_size=8, max_size=30).map(tuple),
        waits=st.lists(st.sampled_from([0, 0, 0, 1, 2, 5]), min_size=1, max_size=5).map(tuple),
    )
