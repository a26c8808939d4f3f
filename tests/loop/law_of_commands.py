"""Commands and replies: one reply each, at the right time, telling the truth."""

from typing import Any, Protocol

from ludolf.protocol.commands import COMMANDS

Record = dict[str, Any]
NOW = frozenset(name for name, spec in COMMANDS.items() if spec.order == "now")
MOVES = frozenset(name for name, spec in COMMANDS.items() if spec.changes_session)
OF_A_SESSION = frozenset(name for name, spec in COMMANDS.items() if spec.about_session)
# What ends a run: those that always do so before they are answered, and those that may.
STOPPING = ("abort", "abort_and_prompt", "new_session", "switch_session", "fork", "clone")

MAY_STOP = (*STOPPING, "compact", "navigate_tree")


class Scene(Protocol):
    """What the other laws know at the moment of a reply."""

    @property
    def streaming(self) -> bool: ...
    @property
    def settled(self) -> int: ...
    @property
    def waiting(self) -> tuple[list[str], list[str]]: ...
    def compacting(self) -> bool: ...


class CommandLaws:
    """`accepted` is the text of a prompt whose run has not begun yet."""

    def __init__(self) -> None:
        self.accepted: str | None = None
        self._open: dict[str, Record] = {}
        # For commands that stop a run: how many runs must have settled before their reply.
        self._due: dict[str, int] = {}
        self._at_once: str | None = None

    @property
    def stopping(self) -> bool:
        """Whether someone has asked for the end of what runs."""
        return any(one["type"] in MAY_STOP for one in self._open.values())

    def sent(self, record: Record, scene: Scene) -> None:
        number = record["id"]
        assert self._at_once is None, f"no answer at once: {self._at_once}"
        assert number not in self._open, f"the log has two commands {number}"
        self._open[number] = record
        moving = any(one["type"] in MOVES for one in self._open.values())
        if record["type"] in NOW and not (moving and record["type"] in OF_A_SESSION):
            self._at_once = number
        if record["type"] in STOPPING:
            self._due[number] = scene.settled + scene.streaming

    def replied(self, record: Record, scene: Scene) -> None:
        number = record.get("id")
        assert number in self._open, f"a reply that nobody waits for: {number}"
        command = self._open.pop(number)
        assert command["type"] == record["command"], f"the reply to {number} names another command"
        assert ("error" in record) != record["success"], "a reply is a success or has an error"
        if self._at_once == number:
            self._at_once = None
        if not record["success"]:
            return
        assert scene.settled >= self._due.get(number, 0), f"{number} answered before the rest"
        self._check_data(command, record.get("data"), scene)

    def end(self) -> None:
        assert not self._open, f"never answered: {list(self._open)}"

    def _check_data(self, command: Record, data: Any, scene: Scene) -> None:
        match command["type"]:
            case "prompt" | "abort_and_prompt":
                self._prompted(command, data["disposition"], scene)
            case "steer":
                assert scene.waiting[0][-1:] == [command["message"]], "steer was not told of"
            case "follow_up":
                assert scene.waiting[1][-1:] == [command["message"]], "follow_up was not told of"
            case "get_state":
                self._check_state(data, scene)
            case "compact":
                assert not scene.compacting(), "compact was answered before its end"

    def _prompted(self, command: Record, disposition: str, scene: Scene) -> None:
        if disposition == "queued":
            line = scene.waiting[0 if command["streamingBehavior"] == "steer" else 1]
            assert line[-1:] == [command["message"]], "a queued prompt was not told of"
            return
        assert not scene.streaming, "a prompt started while another ran"
        self.accepted = command["message"]

    def _check_state(self, state: Record, scene: Scene) -> None:
        assert state["isStreaming"] == scene.streaming, f"isStreaming {state['isStreaming']}"
        count = sum(map(len, scene.waiting))
        assert state["pendingMessageCount"] == count, f"pendingMessageCount, told: {count}"
        walking = any(one["type"] == "navigate_tree" for one in self._open.values())
        if scene.compacting() or not walking:
            assert state["isCompacting"] == scene.compacting(), "isCompacting"
