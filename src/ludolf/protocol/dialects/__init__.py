"""The dialects by name. Each is loaded when it is chosen."""

from importlib import import_module

from ludolf.base import ConfigError
from ludolf.protocol.dialects.dialect import Dialect, ServerInfo

# The module of each dialect and its class there.
_CLASSES = {
    "pi": ("pi", "Pi"),
    "pi-0.79": ("pi_079", "Pi079"),
    "pi-delta": ("dialect", "PiDelta"),
    "omp": ("omp", "Omp"),
    "xcsh": ("xcsh", "Xcsh"),
    "pi-early": ("pi_early", "PiEarly"),
}
NAMES = tuple(_CLASSES)
DEFAULT = "pi"


def make_dialect(name: str) -> Dialect:
    """Raises:
    ConfigError: no dialect has this name.
    """
    if name not in _CLASSES:
        raise ConfigError(f'Unknown RPC dialect "{name}". Valid values: {", ".join(NAMES)}')
    module, kind = _CLASSES[name]
    dialect: Dialect = getattr(import_module(f"{__name__}.{module}"), kind)()
    return dialect


__all__ = ["DEFAULT", "NAMES", "Dialect", "ServerInfo", "make_dialect"]
