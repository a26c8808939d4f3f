"""The parts of one engine, in one place; who needs a neighbour asks here."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ludolf.ai.http.transport import Transport
from ludolf.ai.registry import Providers
from ludolf.base import ConfigError
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import Choice
from ludolf.config.settings.file_permissions import exposure
from ludolf.config.settings.home import Home
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import Retry, Settings, SettingsFiles
from ludolf.engine.hub import Hub
from ludolf.engine.run.limits import Meter
from ludolf.engine.run.message_queue import Waiting
from ludolf.session.finder import Place
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ludolf.base.project_files import IsHidden
    from ludolf.engine.extension_bridge.loader import Extending
    from ludolf.engine.features.safety import Safety
    from ludolf.engine.features.stream_rules import StreamRules
    from ludolf.engine.features.subagents.jobs import Jobs
    from ludolf.engine.features.todos import Todos
    from ludolf.engine.host.host_uris import HostUris
    from ludolf.engine.models import ModelState
    from ludolf.engine.resources import Resources
    from ludolf.engine.toolbox import Toolbox


class Parts:
    """Filled by `build`, never replaced afterwards but for the session."""

    options: Options
    home: Home
    # The folder that the host started in. A session may move `home.cwd`, never this.
    start: Path
    settings_files: SettingsFiles
    warn: "Callable[[str], None]"
    registry: ModelRegistry
    transport: Transport
    providers: Providers
    hub: Hub
    queue: Waiting
    meter: Meter
    place: Place
    _session: Session
    models: "ModelState"
    toolbox: "Toolbox"
    resources: "Resources"
    todos: "Todos"
    rules: "StreamRules"
    extending: "Extending"
    # None while nothing of it is on. No default, so that no engine lacks it by mistake.
    safety: "Safety | None"
    # Agents in the background; None unless the model may start some.
    jobs: "Jobs | None" = None
    # Why what the project brings is left aside, unless somebody trusts it later.
    distrust: str | None = None
    # The digest of the project's code, from when it was first loaded by a trusted project.
    seal: str | None = None
    # How many agents stand between this one and the host.
    depth: int = 0
    # Sections of the system prompt that belong to this engine alone.
    sections: "Mapping[str, str] | None" = None
    forced_system: str | None = None
    # Once a host lends some.
    documents: "HostUris | None" = None
    # The model and level of the recording that is played back.
    replayed: Choice | None = None
    # Chooses the model once extensions have made theirs known.
    model_later: "Callable[[], None] | None" = None

    def __init__(self) -> None:
        self._exposures: set[str] = set()

    def report_exposure(self, path: Path) -> None:
        """Files of other programs may be open to everybody: that is told, and left as it is."""
        text = exposure(path)
        if text is not None and text not in self._exposures:
            self._exposures.add(text)
            self.report(text)

    @property
    def session(self) -> Session:
        return self._session

    @session.setter
    def session(self, session: Session) -> None:
        session.sync = self.settings.sync
        self._session = session

    def report(self, text: str) -> None:
        """Nothing fails silently: what could not be done goes to stderr and to the host."""
        self.warn(text)
        self.hub.report(text)

    def report_distrust(self) -> None:
        """What the project brings is left aside; stderr knows already."""
        if self.distrust is not None and not self.settings_files.trusted:
            self.hub.report(self.distrust)
        self.distrust = None

    def trust_project(self) -> None:
        """Use the project's own settings and resources from now on."""
        given = self.settings_files.given
        self.settings_files = SettingsFiles(self.home, trusted=True, given=given)
        self.seal = None
        self.resources.forget()
        self.renew_safety()

    def renew_safety(self) -> None:
        """Approvals, sandbox and mask as the options and settings say now.

        Raises:
            ConfigError: they make no sense or cannot be read, or the sandbox cannot be made.
        """
        for doubt in self.settings_files.doubts:
            raise ConfigError(doubt)
        if self.safety is not None:
            self.safety.renew(self)
        elif self._asks_for_safety():
            from ludolf.engine.features.safety import make_safety

            self.safety = make_safety(self)

    def _asks_for_safety(self) -> bool:
        options, files = self.options, self.settings_files
        given: list[Any] = [options.approval, options.sandbox, options.sandbox_network]
        given.append(options.mask_secrets or None)
        for each in (files.user, files.project):
            given += [each.approval, each.sandbox, each.secrets]
        return any(value is not None for value in given)

    def check_folder(self, cwd: str, file: Path | None) -> None:
        """Refuse to work in the folder of a session if it is outside the sandbox.

        Raises:
            CommandError: it is.
        """
        if self.safety is not None:
            self.safety.check_folder(Path(cwd), file)

    @property
    def is_hidden(self) -> "IsHidden | None":
        """Tells whether the sandbox hides a path from the model; None without a sandbox."""
        return None if self.safety is None else self.safety.hides(self.home.cwd)

    def move_to(self, cwd: str) -> None:
        """Work in another folder from now on: that of the session just opened."""
        if cwd == str(self.home.cwd):
            return
        from ludolf.engine.project_trust import read_settings

        self.home = structs.replace(self.home, cwd=Path(cwd))
        self.place = structs.replace(self.place, cwd=cwd)
        self.settings_files = read_settings(self)
        if "safety" in vars(self):  # else the engine is being built, and `build` renews it
            self._settle()

    def _settle(self) -> None:
        """Apply the approvals, sandbox and mask of the settings of the folder just entered."""
        try:
            self.renew_safety()
        except ConfigError as error:
            self.settings_files = SettingsFiles(self.home, given=self.settings_files.given)
            self.distrust = f"What guards the machine stays as it was: {error}"
        self.report_distrust()

    @property
    def settings(self) -> Settings:
        return self.settings_files.current

    @property
    def retry(self) -> Retry:
        """How failures are tried again; a replay is the same each time."""
        retry = self.settings.retry
        return structs.replace(retry, jitter=0.0) if self.options.replay is not None else retry
