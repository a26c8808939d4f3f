"""The models that ship inside the program: the offline demo and the scripted one."""

import os

from ludolf.ai.access import Access
from ludolf.ai.builtin.models import PROVIDER, offline_model, scripted_model
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import ModelChoice

SCRIPT_VARIABLE = "LUDOLF_SCRIPT"
OFFLINE_VARIABLE = "LUDOLF_OFFLINE_MODEL"


def ensure_builtin(registry: ModelRegistry, wanted: str) -> None:
    """Register the built-in models if one of them is asked for by name."""
    if wanted == PROVIDER or wanted.startswith(f"{PROVIDER}/"):
        _register(registry, scripted=True)


def fallback(registry: ModelRegistry) -> ModelChoice | None:
    """Return the model to use when none is configured: a script if one is named, else offline."""
    scripted = bool(os.environ.get(SCRIPT_VARIABLE))
    if not scripted and os.environ.get(OFFLINE_VARIABLE, "").strip().lower() in _OFF:
        return None
    _register(registry, scripted=scripted)
    model = registry.find(PROVIDER, "scripted" if scripted else "offline")
    return ModelChoice(model=model) if model else None


_OFF = ("0", "false", "no", "off")


def _register(registry: ModelRegistry, *, scripted: bool) -> None:
    # A model without a script has nothing to say: it is there for those who ask for it.
    more = (scripted_model(),) if scripted else ()
    registry.register((offline_model(), *more), Access())
