"""The dialects by name. Each is loaded when it is chosen."""

from ludolf.base import ConfigError
from ludolf.protocol.dialects.dialect import Dialect, ServerInfo

NAMES = ("pi", "pi-delta", "omp", "xcsh", "pi-early")
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
    if name == "omp":
        from ludolf.protocol.dialects.omp import Omp

        return Omp()
    if name == "xcsh":
        from ludolf.protocol.dialects.xcsh import Xcsh

        return Xcsh()
    if name == "pi-early":
        from ludolf.protocol.dialects.pi_early import PiEarly

        return PiEarly()
    raise ConfigError(f'Unknown RPC dialect "{name}". Valid values: {", ".join(NAMES)}')


__all__ = ["DEFAULT", "NAMES", "Dialect", "ServerInfo", "make_dialect"]
