"""The folder, the options and the settings that an engine works with."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from ludolf.base import Warn
from ludolf.config.settings.home import Home
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import Retry, Settings, SettingsFiles


class SubagentOrigin(msgspec.Struct, frozen=True):
    """The subagent that an engine runs: its id, its definition, and the call that started it."""

    id: str
    agent: str
    call_id: str


class Workspace:
    """Shared by an engine and its subagents, which get a copy with their own options.

    `start` is the folder that the host started in; a session may move `home.cwd`, never this.
    `distrust` says why the project's own settings are not used; None if they are, or once it was
    reported. `seal` is the digest of the project's code when it was first loaded.
    `depth` counts the engines between this one and the host; `origin` is set for subagents. `mode`
    is the way in which the program serves its host. `project_trust.read_settings` sets
    `files`.
    """

    files: SettingsFiles

    def __init__(
        self,
        options: Options,
        home: Home,
        warn: Warn,
        *,
        depth: int = 0,
    ) -> None:
        self.options = options
        self.home = home
        self.start = home.cwd
        self.warn = warn
        self.distrust: str | None = None
        self.seal: str | None = None
        self.depth = depth
        self.mode = "rpc"
        self.origin: SubagentOrigin | None = None

    @property
    def settings(self) -> Settings:
        return self.files.current

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables of the session. No component reads those of the process."""
        return self.options.environ

    @property
    def cwd(self) -> Path:
        return self.home.cwd

    @property
    def retry(self) -> Retry:
        """The retry policy; without jitter in a replay, which is the same each time."""
        retry = self.settings.retry
        return structs.replace(retry, jitter=0.0) if self.options.replay is not None else retry

    def move_to(self, cwd: str) -> None:
        """Work in another folder from now on."""
        self.home = structs.replace(self.home, cwd=Path(cwd))

    def use_project(self, *, trusted: bool) -> None:
        """Read the settings again, with or without those of the project."""
        self.files = SettingsFiles(self.home, trusted=trusted, given=self.files.given)
        self.seal = None

    def package_warnings(self) -> tuple[str, ...]:
        """Return a text for each package of the settings that is missing or invalid."""
        if not self.settings.packages and not self.files.user.packages:
            return ()
        from ludolf.config.packages.contents import configured_packages

        return configured_packages(self.home, self.files).warnings

    def for_subagent(self, options: Options) -> "Workspace":
        workspace = Workspace(options, self.home, self.warn, depth=self.depth + 1)
        workspace.start, workspace.files = self.start, self.files
        workspace.mode = self.mode
        return workspace
