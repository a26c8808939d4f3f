"""Settings of sandbox and secret masking; a project can tighten them, never loosen."""

from typing import Literal

from ludolf.base import ConfigError
from ludolf.config.settings.approval_rules import StrictValue, check_choice, read_strictly
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles

SandboxMode = Literal["off", "workspace", "read-only"]
MODES: tuple[SandboxMode, ...] = ("off", "workspace", "read-only")


class SandboxSettings(StrictValue):
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


class SecretSettings(StrictValue):
    """Secret masking; `variables` names further environment variables with secrets."""

    mask: bool = False
    variables: tuple[str, ...] = ()


def read_sandbox(files: SettingsFiles, options: Options) -> SandboxSettings:
    """Parse the sandbox settings.

    Raises:
        ConfigError: a value is invalid.
    """
    own, theirs = read_strictly(files, "sandbox", SandboxSettings)
    mode, network = own.mode, own.network
    if options.sandbox is not None:
        mode = check_choice("sandbox mode", options.sandbox, MODES)
    if options.sandbox_network is not None:
        asked = check_choice("sandbox network", options.sandbox_network, ("on", "off"))
        network = asked == "on"
    mode = max(mode, theirs.mode, key=MODES.index)
    if mode == "off" and options.sandbox_network == "off":
        raise ConfigError(
            "Only a sandbox can switch the network off: choose the sandbox mode workspace or "
            "read-only."
        )
    hide = (*own.hide, *theirs.hide)
    return own.replace(mode=mode, network=network and theirs.network, hide=hide)


def read_secrets(files: SettingsFiles, options: Options) -> SecretSettings:
    """Parse the settings of secret masking.

    Raises:
        ConfigError: a value is invalid.
    """
    own, theirs = read_strictly(files, "secrets", SecretSettings)
    return SecretSettings(
        mask=options.mask_secrets or own.mask or theirs.mask,
        variables=(*own.variables, *theirs.variables),
    )
