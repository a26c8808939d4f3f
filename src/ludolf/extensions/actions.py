"""Session actions that `api` and `ctx` share."""

from collections.abc import Generator, Sequence
from typing import Any, Literal

from msgspec import UNSET

from ludolf.ai.messages import CustomMessage, Part, UserMessage
from ludolf.ai.models import Model
from ludolf.base import CommandError, LudolfError
from ludolf.extensions.host import Delivery, Host
from ludolf.extensions.runtime import NotReady, Runtime
from ludolf.functions.content import read_custom, read_parts
from ludolf.functions.results import ExecResult

RUNTIME = "<runtime>"


class PendingMessage:
    """Handle of a sent message; awaiting it is optional and waits until the agent is idle."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __await__(self) -> Generator[Any, None, None]:
        return self._runtime.host.sessions.wait_for_idle().__await__()


class Actions:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def send_message(
        self, message: CustomMessage, trigger_turn: bool | None, deliver_as: Delivery | None
    ) -> PendingMessage:
        if deliver_as not in (None, "steer", "followUp", "nextTurn"):
            raise ValueError(f'deliver_as must be "steer", "followUp" or "nextTurn": {deliver_as}')

        def send(host: Host) -> None:
            host.send_message(message, trigger_turn=trigger_turn, deliver_as=deliver_as)

        return self._send("send_message", send)

    def send_user_message(
        self,
        content: Any,
        deliver_as: Literal["steer", "followUp"] | None,
        expand: bool,
    ) -> PendingMessage:
        if deliver_as not in (None, "steer", "followUp"):
            raise ValueError(f'deliver_as must be "steer" or "followUp": {deliver_as}')
        parts: str | tuple[Part, ...] = content
        if isinstance(content, UserMessage):
            parts = content.content
        elif not isinstance(content, str):
            parts = read_parts(content, "content")

        def send(host: Host) -> None:
            host.send_user_message(parts, deliver_as=deliver_as, expand=expand)

        return self._send("send_user_message", send)

    def _send(self, event: str, send: Any) -> PendingMessage:
        """Send without waiting; errors are reported, except `NotReady`."""
        try:
            self.runtime.do(send)
        except NotReady:
            raise
        except LudolfError as error:
            self.runtime.report(RUNTIME, event, str(error))
        return PendingMessage(self.runtime)

    def append_entry(self, custom_type: str, data: Any = UNSET) -> str:
        return self.runtime.do(lambda host: host.append_entry(custom_type, data))

    def set_model(self, model: Model | str) -> bool:
        """Select a model; returns False without credentials.

        Raises:
            CommandError: the model is unknown.
        """
        return self.runtime.do(lambda host: host.set_model(find_model(host, model)))

    async def exec(
        self, command: str, args: Sequence[str], cwd: str | None, timeout: float | None
    ) -> ExecResult:
        from ludolf.extensions.exec import execute

        host = self.runtime.host
        place = host.cwd if cwd is None else host.cwd / cwd
        return await execute((command, *args), place, host.environment, timeout)


def custom_message(custom_type: str, content: Any, display: bool, details: Any) -> CustomMessage:
    """Build a custom message.

    Raises:
        BadAnswer: the content is neither text nor blocks.
    """
    fields = {"custom_type": custom_type, "content": content, "display": display}
    if details is not UNSET and details is not None:
        fields["details"] = details
    return read_custom(fields, "send_message")


def find_model(host: Host, model: Model | str) -> Model:
    if isinstance(model, Model):
        return model
    provider, _, name = model.partition("/")
    match = host.registry.find(provider, name)
    if match is None:
        raise CommandError(f"Model not found: {model}")
    return match
