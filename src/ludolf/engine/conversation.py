"""The session of an engine with its queue, its events and its usage."""

from pathlib import Path

from msgspec import structs

from ludolf.agent.events import MessageEnd
from ludolf.agent.queue import QueueMode
from ludolf.ai.messages import CustomMessage
from ludolf.base import iso_time
from ludolf.config.settings.file_permissions import exposure
from ludolf.engine.feature import Features
from ludolf.engine.hub import Hub
from ludolf.engine.run.limits import Meter
from ludolf.engine.run.message_queue import MessageQueue
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import Event
from ludolf.session.entries import CustomMessageBody, MessageBody
from ludolf.session.finder import SessionFolder
from ludolf.session.tree import Session


class Conversation:
    """The session is the only part that is replaced. `place` is where its files are kept."""

    def __init__(
        self,
        workspace: Workspace,
        place: SessionFolder,
        features: Features,
        meter: Meter,
        modes: tuple[QueueMode, QueueMode],
    ) -> None:
        self._workspace = workspace
        self._session: Session | None = None
        self._exposures: set[str] = set()
        self.place = place
        self.meter = meter
        self.hub = Hub(self._record, workspace.warn, features)
        self.queue = MessageQueue(self.hub, *modes)

    @property
    def session(self) -> Session:
        assert self._session is not None, "no session has been opened yet"
        return self._session

    def replace(self, session: Session) -> None:
        session.sync = self._workspace.settings.sync
        self._session = session

    def move_to(self, cwd: str) -> None:
        """Work in the folder of the session from now on."""
        if cwd != str(self._workspace.cwd):
            self._workspace.move_to(cwd)
            self.place = structs.replace(self.place, cwd=cwd)

    def report_exposure(self, path: Path) -> None:
        """Report a private file that other users can read, once; its mode is not changed."""
        text = exposure(path)
        if text is not None and text not in self._exposures:
            self._exposures.add(text)
            self.hub.report(text)

    def _record(self, *events: Event) -> None:
        """Write the messages of a run into the session."""
        if len(events) > 1:
            with self.session.together():
                for event in events:
                    self._record(event)
            return
        (event,) = events
        if isinstance(event, MessageEnd):
            message = event.message
            body = _custom(message) if isinstance(message, CustomMessage) else None
            stamp = iso_time(message.timestamp) if body else None
            self.session.append(body or MessageBody(message=message), timestamp=stamp)


def _custom(message: CustomMessage) -> CustomMessageBody:
    return CustomMessageBody(
        custom_type=message.custom_type,
        content=message.content,
        display=message.display,
        details=message.details,
    )
