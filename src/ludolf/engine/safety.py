"""What stands between the model and the machine where it is on: approvals, sandbox, mask."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.agent.tool import Block, Tool, ToolError, Walls
from ludolf.ai.messages import ToolCall
from ludolf.base import ConfigError
from ludolf.config.approval_rules import read_approvals
from ludolf.config.home import expand
from ludolf.config.safety_settings import (
    SandboxSettings,
    read_sandbox,
    read_secrets,
    refuse_spoilt,
)
from ludolf.engine.parts import Parts
from ludolf.project_files import IsHidden
from ludolf.protocol.events import Warned

if TYPE_CHECKING:
    from ludolf.ai.provider import Provider
    from ludolf.engine.approvals import Approvals, Send
    from ludolf.engine.secrets_mask import Mask
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
        self._send: Send | None = None
        self._watched: tuple[Path, frozenset[Any]] | None = None
        self.renew(parts)

    def renew(self, parts: Parts) -> None:
        """Settings changed. What was approved for the session stays approved.

        Raises:
            ConfigError: as when made; all stays as it was.
        """
        files, options = parts.settings_files, parts.options
        refuse_spoilt(files)
        say = read_approvals(files, options.approval)
        asked, secrets = read_sandbox(files, options), read_secrets(files, options)
        if asked != self._asked:
            self._rebuild(asked, parts)
        if say and self.approvals is None:
            from ludolf.engine.approvals import Approvals

            self.approvals = Approvals(say, parts)
            self.approvals.send = self._send
        elif self.approvals is not None:
            self.approvals.say = say
        if secrets.mask:
            from ludolf.engine.secrets_mask import Mask

            self.mask = Mask(parts, secrets.variables)
        else:
            self.mask = None

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
        """The arguments to run the call with, or why it must not run."""
        real = dict(args) if self.mask is None else self.mask.restore(dict(args))
        if self.approvals is not None:
            # What is shown is what runs, whatever an extension made of the call; without secrets.
            shown = call.replace(arguments=dict(args))
            refused = await self.approvals.review(shown, tool, real, parts)
            if refused is not None:
                return refused
        return real

    def walls(self, cwd: Path) -> Walls | None:
        """Raises:
        ToolError: this folder cannot be worked in within the sandbox.
        """
        return None if self.sandbox is None else self.sandbox.walls(cwd)

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
        parts.hub.post(Warned(message=text))
        parts.warn(f"Warning: {text}")

    # ------------------------------------------------------------ private

    def _rebuild(self, asked: SandboxSettings, parts: Parts) -> None:
        old, self.sandbox = self.sandbox, _sandbox(asked, parts)
        self._asked = asked
        if old is not None:
            old.close()
        if self.sandbox is not None:
            project = parts.home.project
            self._watched = (project, _signature(project))


def _withdraw_trust(parts: Parts) -> str:
    """What to say if it could not be stored."""
    from ludolf.config.trust import save_decision

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


def _sandbox(asked: SandboxSettings, parts: Parts) -> "Sandbox | None":
    if asked.mode == "off":
        return None
    from ludolf.tools.sandbox.policy import Ground
    from ludolf.tools.sandbox.sandbox import NoSandbox, Sandbox

    home = parts.home
    ground = Ground(
        mode=asked.mode,
        network=asked.network,
        home=home.user,
        agent=home.agent,
        write=_places(asked.write, parts),
        hide=_places(asked.hide, parts),
        show=_places(asked.show, parts),
        guarded=_places((*parts.options.extensions, *_shell(parts)), parts),
    )
    try:
        return Sandbox(ground, home.cwd, asked.using)
    except NoSandbox as error:
        raise ConfigError(str(error)) from error


def _places(names: tuple[str, ...], parts: Parts) -> tuple[Path, ...]:
    return tuple(parts.home.cwd / expand(name) for name in names)


def _shell(parts: Parts) -> tuple[str, ...]:
    path = parts.settings.shell_path
    return (path,) if path else ()


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
