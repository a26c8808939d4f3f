"""Approvals, sandbox and secret masking, when enabled."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.io import Outcome
from ludolf.agent.tool import Deny, Tool, ToolFailure, Walls
from ludolf.ai.messages import ToolCall
from ludolf.base import CommandError, ConfigError
from ludolf.base.project_files import IsHidden
from ludolf.config.settings.approval_rules import read_approvals
from ludolf.config.settings.safety_settings import SandboxSettings, read_sandbox, read_secrets
from ludolf.engine.bundles import Bundles
from ludolf.engine.feature import Feature
from ludolf.engine.project_trust import stop_trusting
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import Warned

if TYPE_CHECKING:
    from ludolf.ai.provider import Provider
    from ludolf.engine.feature import Send
    from ludolf.engine.features.secrets import Mask
    from ludolf.engine.host.approvals import Approvals
    from ludolf.protocol.commands import UiAnswer
    from ludolf.protocol.ui import UiRequest
    from ludolf.tools.sandbox.sandbox import Sandbox

TRUST_WITHDRAWN = (
    "A command in the sandbox changed {folder}, from which code is run. Ludolf no longer trusts "
    "the folder: look at it, then trust it again."
)
REMOVED = "A command in the sandbox made {path}, by which git would run other code. It was removed."


class SharedSafety(Feature):
    """The safety of a host as one engine uses it: its own engine, or that of a subagent.

    Subagents ask the same host and work within the same walls. `bundles` are those of the engine.
    """

    def __init__(self, safety: "Safety", bundles: Bundles) -> None:
        self._safety = safety
        self._bundles = bundles

    async def before_tool(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any]
    ) -> Mapping[str, Any] | Deny:
        return await self._safety.review(call, tool, args, self._bundles)

    async def after_tool(self, call: ToolCall, outcome: Outcome) -> Outcome:
        self._safety.after_command()
        return outcome

    def on_idle(self) -> bool:
        # Also for aborted commands, whose calls have no result to look at.
        self._safety.after_command()
        return False

    def walls(self, cwd: Path) -> Walls | None:
        """Raises:
        ToolFailure: this folder cannot be worked in within the sandbox.
        """
        sandbox = self._safety.sandbox
        return None if sandbox is None else sandbox.walls(cwd)

    def hides(self, cwd: Path) -> IsHidden | None:
        sandbox = self._safety.sandbox
        if sandbox is None:
            return None
        try:
            return sandbox.walls(cwd).hides
        except ToolFailure:
            return lambda path: True  # nothing can be done in this folder

    def writable(self, cwd: Path) -> tuple[Path, ...]:
        """Where commands in the sandbox can write; nothing without one."""
        sandbox = self._safety.sandbox
        return () if sandbox is None else sandbox.writable(cwd)

    def output_folder(self) -> Path | None:
        sandbox = self._safety.sandbox
        return None if sandbox is None else sandbox.output_folder

    def wrap_provider(self, provider: "Provider") -> "Provider":
        mask = self._safety.mask
        return provider if mask is None else mask.provider(provider)

    def for_subagent(self, bundles: Bundles) -> Feature:
        return SharedSafety(self._safety, bundles)


class Safety(SharedSafety):
    """The safety of one host, which owns the sandbox, the mask and the approvals."""

    def __init__(self, bundles: Bundles) -> None:
        """Raises:
        ConfigError: the settings are invalid, or the sandbox cannot be made.
        """
        super().__init__(self, bundles)
        self.approvals: Approvals | None = None
        self.sandbox: Sandbox | None = None
        self.mask: Mask | None = None
        self._asked: SandboxSettings | None = None
        self._guarded: tuple[Path, ...] = ()
        self._send: Send | None = None
        self._watched: tuple[Path, frozenset[Any]] | None = None
        self.renew()

    def renew(self) -> None:
        """Apply changed settings. Approvals for the session stay.

        Raises:
            ConfigError: as for the constructor; nothing has changed then.
        """
        workspace = self._bundles.workspace
        files, options = workspace.files, workspace.options
        policies = read_approvals(files, options.approval, options.default_approval)
        asked, secrets = read_sandbox(files, options), read_secrets(files, options)
        self._rebuild(asked)
        # Where a mode has a default of its own, the user may also change it at any time.
        if policies or options.default_approval is not None or self.approvals is not None:
            self.offer_approvals().policies = policies
        if not secrets.mask:
            self.mask = None
        elif self.mask is not None:
            self.mask.variables = frozenset(secrets.variables)
        else:
            from ludolf.engine.features.secrets import Mask

            self.mask = Mask(self._bundles, secrets.variables, self._hides)

    def offer_approvals(self) -> "Approvals":
        """Return the approvals; without policies they ask about nothing."""
        if self.approvals is None:
            from ludolf.engine.host.approvals import Approvals

            self.approvals = Approvals((), self._bundles.conversation)
            self.approvals.dialogs.send = self._send
        return self.approvals

    def guard_code(self) -> None:
        if self._asked is not None:
            self._rebuild(self._asked)

    def connect(self, send: "Send | None") -> None:
        self._send = send
        if self.approvals is not None:
            self.approvals.dialogs.send = send

    def answer_dialog(self, answer: "UiAnswer") -> None:
        if self.approvals is not None:
            self.approvals.dialogs.answer(answer)

    def open_dialogs(self) -> "Iterable[UiRequest]":
        return () if self.approvals is None else self.approvals.dialogs.waiting()

    def disconnect(self) -> None:
        self._send = None
        if self.approvals is not None:
            self.approvals.dialogs.close()

    async def start(self) -> None:
        if self._bundles.toolset.owns_process:
            self._close_imports()

    async def close(self) -> None:
        self.after_command()
        self.release()

    def release(self) -> None:
        """Remove the sandbox."""
        self.disconnect()
        if self.sandbox is not None:
            self.sandbox.close()
            self.sandbox = None

    # ------------------------------------------------------------ calls

    async def review(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any], bundles: Bundles
    ) -> dict[str, Any] | Deny:
        """Return the arguments to run a call with, or a block. `bundles` are those of the caller.

        Raises:
            ToolFailure: an argument holds the placeholder of a secret that cannot be used in calls.
        """
        real = dict(args) if self.mask is None else self.mask.restore(dict(args))
        if self.approvals is not None:
            # The dialog shows the call that will run: with values instead of placeholders, and as
            # extensions changed it.
            shown = call.replace(arguments=real)
            refused = await self.approvals.review(shown, tool, real, bundles)
            if refused is not None:
                return refused
        return real

    def _close_imports(self) -> None:
        """Import nothing more from folders that commands can write to, unless it is protected."""
        import sys

        from ludolf.base.programs import lies_in

        writable = self.writable(self._bundles.workspace.cwd)
        open_places = {place for place in sys.path if lies_in(place, writable)}
        if open_places:
            from ludolf.tools.sandbox.policy import program_places

            open_places = {each for each in open_places if not lies_in(each, program_places())}
            sys.path[:] = [place for place in sys.path if place not in open_places]

    def check_folder(self, cwd: Path, file: Path | None) -> None:
        """Raises:
        CommandError: a session cannot work in its folder within the sandbox.
        """
        if self.sandbox is None:
            return
        from ludolf.tools.sandbox.guard import NoSandbox

        try:
            self.sandbox.check_folder(cwd)
        except NoSandbox as error:
            raise CommandError(
                f"The session {file} cannot be opened here: {error} To continue the conversation "
                "here instead, start with --fork and this file."
            ) from error

    def after_command(self) -> None:
        """Remove files that would run code outside the sandbox, and withdraw trust if needed.

        Landlock cannot protect a part of a writable folder. There the project's code is watched,
        and a change of it ends the trust.
        """
        if self.sandbox is None:
            return
        workspace, hub = self._bundles.workspace, self._bundles.conversation.hub
        for path in self.sandbox.sweep():
            hub.post(Warned(message=REMOVED.format(path=path)))
            workspace.warn(f"Warning: {REMOVED.format(path=path)}")
        if self.sandbox.name != "landlock":
            return
        if not workspace.files.trusted or self._watched is None:
            return
        folder, before = self._watched
        after = _signature(folder)
        if after == before:
            return
        self._watched = (folder, after)
        text = TRUST_WITHDRAWN.format(folder=folder) + _withdraw_trust(self._bundles)
        stop_trusting(self._bundles, text)

    # ------------------------------------------------------------ private

    def _hides(self, cwd: Path, path: Path) -> bool:
        """Whether the sandbox keeps a file from tools that work in a folder."""
        try:
            walls = self.walls(cwd)
            if walls is not None:
                walls.locate(path)
        except ToolFailure:
            return True
        return False

    def _rebuild(self, asked: SandboxSettings) -> None:
        """Make the sandbox again if its settings or the code that it protects changed."""
        workspace = self._bundles.workspace
        guarded = _guarded(asked, workspace)
        if (asked, guarded) == (self._asked, self._guarded):
            return
        old, self.sandbox = self.sandbox, _sandbox(asked, guarded, workspace)
        self._asked, self._guarded = asked, guarded
        resolver = self._bundles.models.registry.keyring.resolver
        resolver.writable = self.writable(workspace.cwd)
        if old is not None:
            old.close()
        if self.sandbox is not None:
            project = workspace.home.project
            self._watched = (project, _signature(project))


def _withdraw_trust(bundles: Bundles) -> str:
    """Store the distrust; returns an error text if that failed."""
    from ludolf.config.settings.trust import save_decision

    try:
        save_decision(bundles.workspace.home, trusted=False)
    except (ConfigError, OSError) as error:
        return f" That could not be stored: {error}"
    return ""


def find_safety(bundles: Bundles) -> Safety:
    """Return the safety of the host's engine; add it if no setting has asked for it."""
    safety = bundles.features.find(Safety)
    if safety is None:
        safety = Safety(bundles)
        bundles.features.add(safety)
    return safety


def refresh_safety(bundles: Bundles) -> None:
    """Apply approvals, sandbox and mask as the options and settings ask for them.

    Raises:
        ConfigError: the settings are invalid, or the sandbox cannot be made.
    """
    safety = bundles.features.find(Safety)
    if safety is not None:
        safety.renew()
        return
    safety = Safety(bundles)
    if any(part is not None for part in (safety.approvals, safety.sandbox, safety.mask)):
        bundles.features.add(safety)


def _guarded(asked: SandboxSettings, workspace: Workspace) -> tuple[Path, ...]:
    """Return every place of code that this program runs, now or at a later start.

    Raises:
        ConfigError: code can be run from any file of a folder that commands may write to.
    """
    if asked.mode != "workspace":
        return ()
    from ludolf.config.settings.executed import code_places
    from ludolf.extensions.sources import import_folders

    home = workspace.home
    own = os.path.realpath(home.project)
    imported = (path for path in sorted(import_folders()) if not path.is_relative_to(own))
    places = code_places(
        home, workspace.files, workspace.environ, paths=workspace.options.extensions
    )
    places = (*places, *imported)
    for place in places:
        for folder in (home.cwd, *_places(asked.write, workspace)):
            if Path(os.path.realpath(folder)).is_relative_to(place):
                raise ConfigError(
                    f"No sandbox for {folder}: extensions are loaded from {place}, so code that a "
                    "command writes there would run outside. Name single extensions instead, or "
                    "start in another folder."
                )
    return places


def _sandbox(
    asked: SandboxSettings, guarded: tuple[Path, ...], workspace: Workspace
) -> "Sandbox | None":
    if asked.mode == "off":
        return None
    from ludolf.tools.sandbox.guard import NoSandbox
    from ludolf.tools.sandbox.policy import Ground
    from ludolf.tools.sandbox.sandbox import Sandbox

    home = workspace.home
    ground = Ground(
        mode=asked.mode,
        network=asked.network,
        home=home.user,
        agent=home.agent,
        environ=workspace.environ,
        write=_places(asked.write, workspace),
        hide=_places(asked.hide, workspace),
        show=_places(asked.show, workspace),
        guarded=guarded,
    )
    try:
        # Not the folder of the session, whose file may name any folder.
        return Sandbox(ground, workspace.start, asked.using)
    except NoSandbox as error:
        raise ConfigError(str(error)) from error


def _places(names: tuple[str, ...], workspace: Workspace) -> tuple[Path, ...]:
    return tuple(workspace.start / workspace.home.expand(name) for name in names)


def _signature(folder: Path) -> frozenset[Any]:
    """Return a value that changes with every change of anything in a folder."""
    found: list[Any] = []
    for place, _, names in os.walk(folder):
        for name in (".", *names):
            try:
                state = os.lstat(os.path.join(place, name))
            except OSError:
                continue
            found.append((place, name, state.st_ino, state.st_ctime_ns, state.st_size))
    return frozenset(found)
