"""Settings of sandbox and secret masking; a project can tighten them, never loosen."""

from typing import Literal

import msgspec

from ludolf.base import ConfigError
from ludolf.config.settings.approval_rules import check_choice, read_strictly
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles

SandboxMode = Literal["off", "workspace", "read-only"]
MODES: tuple[SandboxMode, ...] = ("off", "workspace", "read-only")


class SandboxSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Sandbox settings.

    `write` are folders that commands may change in addition to the working folder; `hide` and
    `show` add and remove hidden paths.
    """

    mode: SandboxMode = "off"
    network: bool = True
    using: Literal["auto", "bwrap", "landlock"] = "auto"
    write: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    show: tuple[str, ...] = ()


class SecretSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Secret masking; `variables` names further environment variables with secrets."""

    mask: bool = False
    variables: tuple[str, ...] = ()


def read_sandbox(files: SettingsFiles, options: Options) -> SandboxSettings:
    """Parse the sandbox settings.

    Raises:
        ConfigError: a value is invalid.
    """
    name = "sandbox"
    own: SandboxSettings = read_strictly(files.user.sandbox, SandboxSettings, files.user_name, name)
    theirs: SandboxSettings = read_strictly(
        files.project.sandbox, SandboxSettings, files.project_name, name
    )
    mode, network = own.mode, own.network
    if options.sandbox is not None:
        mode = check_choice("--sandbox", options.sandbox, MODES)
    if options.sandbox_network is not None:
        asked = check_choice("--sandbox-network", options.sandbox_network, ("on", "off"))
        network = asked == "on"
    mode = max(mode, theirs.mode, key=MODES.index)
    if mode == "off" and options.sandbox_network == "off":
        raise ConfigError("--sandbox-network off needs --sandbox workspace or --sandbox read-only")
    return msgspec.structs.replace(
        own,
        mode=mode,
        network=network and theirs.network,
        hide=(*own.hide, *theirs.hide),
    )


def read_secrets(files: SettingsFiles, options: Options) -> SecretSettings:
    """Parse the settings of secret masking.

    Raises:
        ConfigError: a value is invalid.
    """
    name = "secrets"
    own: SecretSettings = read_strictly(files.user.secrets, SecretSettings, files.user_name, name)
    theirs: SecretSettings = read_strictly(
        files.project.secrets, SecretSettings, files.project_name, name
    )
    return SecretSettings(
        mask=options.mask_secrets or own.mask or theirs.mask,
        variables=(*own.variables, *theirs.variables),
    )
