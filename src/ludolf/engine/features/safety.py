"""What stands between the model and the machine where it is on: approvals, sandbox, mask."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.tool import Block, Tool, ToolError, Walls
from ludolf.ai.messages import ToolCall
from ludolf.base import CommandError, ConfigError
from ludolf.base.project_files import IsHidden
from ludolf.config.settings.approval_rules import read_approvals
from ludolf.config.settings.home import expand
from ludolf.config.settings.safety_settings import SandboxSettings, read_sandbox, read_secrets
from ludolf.engine.parts import Parts
from ludolf.engine.project_trust import stop_trusting
from ludolf.protocol.events import Warned

if TYPE_CHECKING:
    from ludolf.ai.provider import Provider
    from ludolf.engine.features.secrets_mask import Mask
    from ludolf.engine.host.approvals import Approvals, Send
    from ludolf.protocol.commands import UiAnswer
    from ludolf.tools.sandbox.sandbox import Sandbox

TRUST_WITHDRAWN = (
    "A command in the sandbox changed {folder}, from which code is run. The folder is no longer "
    "trusted: look at it, then trust it again."
)
REMOVED = "A command in the sandbox made {path}, by which git would run other code. It was removed."


class Safety:
    """One for a host. Engines of agents in the background share that of the engine they work for,
    so that they ask through its host and stand within its walls."""

    def __init__(self, parts: Parts) -> None:
        """Raises:
        ConfigError: the settings make no sense, or the sandbox cannot be made.
        """
        self.approvals: Approvals | None = None
        self.sandbox: Sandbox | None = None
        self.mask: Mask | None = None
        self._asked: SandboxSettings | None = None
        self._guarded: tuple[Path, ...] = ()
        self._send: Send | None = None
        self._watched: tuple[Path, frozenset[Any]] | None = None
        self.renew(parts)

    def renew(self, parts: Parts) -> None:
        """Settings changed. What was approved for the session stays approved.

        Raises:
            ConfigError: as when made; all stays as it was.
        """
        files, options = parts.settings_files, parts.options
        say = read_approvals(files, options.approval)
        asked, secrets = read_sandbox(files, options), read_secrets(files, options)
        self._rebuild(asked, parts)
        if say and self.approvals is None:
            from ludolf.engine.host.approvals import Approvals

            self.approvals = Approvals(say, parts)
            self.approvals.send = self._send
        elif self.approvals is not None:
            self.approvals.say = say
        if not secrets.mask:
            self.mask = None
        elif self.mask is not None:
            self.mask.variables = frozenset(secrets.variables)
        else:
            from ludolf.engine.features.secrets_mask import Mask

            self.mask = Mask(parts, secrets.variables, self._hides)

    def guard_code(self, parts: Parts) -> None:
        """Extensions were loaded: protect also the files that they imported.

        Raises:
            ConfigError: the sandbox cannot protect them; all stays as it was.
        """
        if self._asked is not None:
            self._rebuild(self._asked, parts)

    def listen(self, send: "Send | None") -> None:
        """From now on somebody can be asked; nobody, without a way to send."""
        self._send = send
        if self.approvals is not None:
            self.approvals.send = send

    def answer(self, response: "UiAnswer") -> None:
        if self.approvals is not None:
            self.approvals.answer(response)

    def hang_up(self) -> None:
        """The host is gone."""
        self._send = None
        if self.approvals is not None:
            self.approvals.close()

    def close(self) -> None:
        self.hang_up()
        if self.sandbox is not None:
            self.sandbox.close()
            self.sandbox = None

    # ------------------------------------------------------------ calls

    async def review(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any], parts: Parts
    ) -> dict[str, Any] | Block:
        """The arguments to run the call with, or why it must not run.

        Raises:
            ToolError: an argument holds the placeholder of a secret that cannot be used in calls.
        """
        real = dict(args) if self.mask is None else self.mask.restore(dict(args))
        if self.approvals is not None:
            # What is shown is what runs: with values in the place of placeholders, and whatever an
            # extension made of the call.
            shown = call.replace(arguments=real)
            refused = await self.approvals.review(shown, tool, real, parts)
            if refused is not None:
                return refused
        return real

    def walls(self, cwd: Path) -> Walls | None:
        """Raises:
        ToolError: this folder cannot be worked in within the sandbox.
        """
        return None if self.sandbox is None else self.sandbox.walls(cwd)

    def writable(self, cwd: Path) -> tuple[Path, ...]:
        """Where commands in the sandbox can write; nothing without one."""
        return () if self.sandbox is None else self.sandbox.writable(cwd)

    def close_imports(self, cwd: Path) -> None:
        """Import nothing any more from where commands can write, except what is protected there."""
        import sys

        from ludolf.base.programs import lies_in
        from ludolf.tools.sandbox.policy import program_places

        writable = self.writable(cwd)
        sys.path[:] = [
            place
            for place in sys.path
            if not lies_in(place, writable) or lies_in(place, program_places())
        ]

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

    @property
    def output_folder(self) -> Path | None:
        """Where the output of commands is kept in a sandbox; None without one."""
        return None if self.sandbox is None else self.sandbox.output_folder

    def hides(self, cwd: Path) -> IsHidden | None:
        """What tells whether the sandbox around a folder hides a real path; None without one."""
        if self.sandbox is None:
            return None
        try:
            return self.sandbox.walls(cwd).hides
        except ToolError:
            return lambda path: True  # nothing can be done in this folder

    def provider(self, inner: "Provider") -> "Provider":
        return inner if self.mask is None else self.mask.provider(inner)

    def after_command(self, parts: Parts) -> None:
        """Landlock cannot protect a part of a folder that is open; then what runs code from there
        is watched, and a change of it costs the project its trust."""
        if self.sandbox is None:
            return
        for path in self.sandbox.sweep():
            parts.hub.post(Warned(message=REMOVED.format(path=path)))
            parts.warn(f"Warning: {REMOVED.format(path=path)}")
        if self.sandbox.name != "landlock":
            return
        if not parts.settings_files.trusted or self._watched is None:
            return
        folder, before = self._watched
        after = _signature(folder)
        if after == before:
            return
        self._watched = (folder, after)
        text = TRUST_WITHDRAWN.format(folder=folder) + _withdraw_trust(parts)
        stop_trusting(parts, text)

    # ------------------------------------------------------------ private

    def _hides(self, cwd: Path, path: Path) -> bool:
        """Whether the sandbox keeps a file from tools that work in a folder."""
        try:
            walls = self.walls(cwd)
            if walls is not None:
                walls.locate(path)
        except ToolError:
            return True
        return False

    def _rebuild(self, asked: SandboxSettings, parts: Parts) -> None:
        """Make the sandbox again if it or the code that it protects is another."""
        guarded = _guarded(asked, parts)
        if (asked, guarded) == (self._asked, self._guarded):
            return
        old, self.sandbox = self.sandbox, _sandbox(asked, guarded, parts)
        self._asked, self._guarded = asked, guarded
        parts.registry.keyring.resolver.writable = self.writable(parts.home.cwd)
        if old is not None:
            old.close()
        if self.sandbox is not None:
            project = parts.home.project
            self._watched = (project, _signature(project))


def _withdraw_trust(parts: Parts) -> str:
    """What to say if it could not be stored."""
    from ludolf.config.settings.trust import save_decision

    try:
        save_decision(parts.home, trusted=False)
    except (ConfigError, OSError) as error:
        return f" That could not be stored: {error}"
    return ""


def make_safety(parts: Parts) -> Safety | None:
    """What the settings and the options ask for; None if that is nothing.

    Raises:
        ConfigError: it cannot be made as it was asked for.
    """
    safety = Safety(parts)
    on = safety.approvals, safety.sandbox, safety.mask
    return safety if any(each is not None for each in on) else None


def _guarded(asked: SandboxSettings, parts: Parts) -> tuple[Path, ...]:
    """Every place of code that this program runs, now or at a later start.

    Raises:
        ConfigError: code can be run from any file of a folder that commands may write to.
    """
    if asked.mode != "workspace":
        return ()
    from ludolf.config.settings.executed import code_places
    from ludolf.extensions.sources import import_folders

    home = parts.home
    own = os.path.realpath(home.project)
    imported = (path for path in sorted(import_folders()) if not path.is_relative_to(own))
    places = code_places(home, parts.settings_files, paths=parts.options.extensions)
    places = (*places, *imported)
    for place in places:
        for folder in (home.cwd, *_places(asked.write, parts)):
            if Path(os.path.realpath(folder)).is_relative_to(place):
                raise ConfigError(
                    f"No sandbox for {folder}: extensions are loaded from {place}, so code that a "
                    "command writes there would run outside. Name single extensions instead, or "
                    "start in another folder."
                )
    return places


def _sandbox(asked: SandboxSettings, guarded: tuple[Path, ...], parts: Parts) -> "Sandbox | None":
    if asked.mode == "off":
        return None
    from ludolf.tools.sandbox.guard import NoSandbox
    from ludolf.tools.sandbox.policy import Ground
    from ludolf.tools.sandbox.sandbox import Sandbox

    home = parts.home
    ground = Ground(
        mode=asked.mode,
        network=asked.network,
        home=home.user,
        agent=home.agent,
        write=_places(asked.write, parts),
        hide=_places(asked.hide, parts),
        show=_places(asked.show, parts),
        guarded=guarded,
    )
    try:
        # Not the folder of the session: a file of others may name any folder.
        return Sandbox(ground, parts.start, asked.using)
    except NoSandbox as error:
        raise ConfigError(str(error)) from error


def _places(names: tuple[str, ...], parts: Parts) -> tuple[Path, ...]:
    return tuple(parts.start / expand(name) for name in names)


def _signature(folder: Path) -> frozenset[Any]:
    """What changes with every change of anything in a folder."""
    found: list[Any] = []
    for place, _, names in os.walk(folder):
        for name in (".", *names):
            try:
                state = os.lstat(os.path.join(place, name))
            except OSError:
                continue
            found.append((place, name, state.st_ino, state.st_ctime_ns, state.st_size))
    return frozenset(found)
