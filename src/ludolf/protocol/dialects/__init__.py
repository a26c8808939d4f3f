"""The dialects by name. Each is loaded when it is chosen."""

from ludolf.base import ConfigError
from ludolf.protocol.dialects.dialect import Dialect, ServerInfo

NAMES = ("pi", "pi-delta")
DEFAULT = "pi"


def make_dialect(name: str) -> Dialect:
    """Raises:
    ConfigError: no dialect has this name.
    """
    if name == "pi":
        from ludolf.protocol.dialects.pi import Pi

        return Pi()
    if name == "pi-delta":
        from ludolf.protocol.dialects.pi_delta import PiDelta

        return PiDelta()
    raise ConfigError(f'Unknown RPC dialect "{name}". Valid values: {", ".join(NAMES)}')


__all__ = ["DEFAULT", "NAMES", "Dialect", "ServerInfo", "make_dialect"]
