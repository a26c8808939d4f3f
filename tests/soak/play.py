"""What a host may ask for, by chance and by seed."""

import random
from pathlib import Path
from typing import Any

Record = dict[str, Any]
_SHELL = (
    "true",
    "echo hi",
    "sleep 0.05; echo late; exit 3",
    "sleep 20",
    "sleep 5 & echo left",
    "yes 0123456789 | head -c 300000",
    "printf '\\377\\033]0;x\\007'",
)
# Lines that are no command; each gets one answer without an id.
RUBBISH = (b"{", b"null", b"[]", b"\x00\xff", b'{"type":7}', b"nonsense")


class Play:
    """Makes commands. It learns from replies which sessions and entries there are."""

    def __init__(self, chance: random.Random, sessions: Path) -> None:
        self._chance = chance
        self._sessions = sessions
        self._number = 0
        self._text = 0
        self.entries: list[str] = []
        self._kinds = {
            "prompt": 22,
            "queued_prompt": 9,
            "steer": 4,
            "follow_up": 4,
            "abort": 7,
            "bash": 8,
            "abort_bash": 3,
            "clear_queue": 4,
            "get_state": 8,
            "get_messages": 2,
            "get_session_stats": 2,
            "get_entries": 1,
            "get_tree": 1,
            "get_fork_messages": 3,
            "get_last_assistant_text": 1,
            "get_commands": 1,
            "set_session_name": 3,
            "set_thinking_level": 2,
            "cycle_model": 1,
            "set_steering_mode": 1,
            "set_auto_retry": 1,
            "abort_retry": 2,
            "abort_and_prompt": 2,
            "new_session": 3,
            "switch_session": 3,
            "fork": 2,
            "clone": 1,
            "compact": 2,
            "navigate_tree": 1,
            "list_sessions": 1,
            "no_such_thing": 1,
            "bad_prompt": 1,
        }

    def next(self) -> Record:
        kinds = list(self._kinds)
        kind = self._chance.choices(kinds, [self._kinds[name] for name in kinds])[0]
        return self.command(kind)

    def command(self, kind: str, **fields: Any) -> Record:
        self._number += 1
        record = {"id": f"{kind}-{self._number}", "type": kind}
        return {**record, **self._fields(kind), **fields}

    def _fields(self, kind: str) -> Record:
        chance = self._chance
        match kind:
            case "prompt" | "steer" | "follow_up" | "abort_and_prompt":
                return {"message": self._words()}
            case "queued_prompt":
                how = chance.choice(("steer", "followUp"))
                return {"type": "prompt", "message": self._words(), "streamingBehavior": how}
            case "bad_prompt":
                return {"type": "prompt", "message": 7}
            case "bash":
                return {"command": chance.choice(_SHELL)}
            case "set_session_name":
                return {"name": f"name {self._number}"}
            case "set_thinking_level":
                return {"level": chance.choice(("off", "low", "high"))}
            case "set_steering_mode":
                return {"mode": chance.choice(("all", "one-at-a-time"))}
            case "set_auto_retry":
                return {"enabled": chance.random() < 0.8}
            case "switch_session":
                return {"sessionPath": self._some_session()}
            case "fork":
                return {"entryId": self._some_entry()}
            case "navigate_tree":
                return {"targetId": self._some_entry(), "summarize": chance.random() < 0.3}
        return {}

    def _words(self) -> str:
        self._text += 1
        return f"text {self._text}"

    def _some_session(self) -> str:
        known = sorted(self._sessions.rglob("*.jsonl"))
        return str(self._chance.choice(known) if known else self._sessions / "first.jsonl")

    def _some_entry(self) -> str:
        return self._chance.choice(self.entries) if self.entries else "unknown"
