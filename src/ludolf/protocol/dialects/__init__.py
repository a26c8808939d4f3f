"""The dialects by name. Each is loaded when it is chosen."""

from ludolf.base import ConfigError
from ludolf.protocol.dialects.dialect import Dialect, PiDelta, ServerInfo

NAMES = ("pi", "pi-0.79", "pi-delta", "omp", "xcsh", "pi-early")
DEFAULT = "pi"


def make_dialect(name: str) -> Dialect:
    """Raises:
    ConfigError: no dialect has this name.
    """
    match name:
        case "pi":
            from ludolf.protocol.dialects.pi import Pi

            return Pi()
        case "pi-0.79":
            from ludolf.protocol.dialects.pi_079 import Pi079

            return Pi079()
        case "pi-delta":
            return PiDelta()
        case "omp":
            from ludolf.protocol.dialects.omp import Omp

            return Omp()
        case "xcsh":
            from ludolf.protocol.dialects.xcsh import Xcsh

            return Xcsh()
        case "pi-early":
            from ludolf.protocol.dialects.pi_early import PiEarly

            return PiEarly()
    raise ConfigError(f'Unknown RPC dialect "{name}". Valid values: {", ".join(NAMES)}')


__all__ = ["DEFAULT", "NAMES", "Dialect", "ServerInfo", "make_dialect"]
