"""`--list-models`: the models that have credentials, as a table."""

import sys
from collections.abc import Sequence

from ludolf.ai.models import Model
from ludolf.cli import terminal
from ludolf.config.auth.credentials import nameless
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.patterns import fits_search, id_order
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.home import Home, find_home
from ludolf.config.settings.settings import SettingsFiles

COLUMNS = ("provider", "model", "context", "max-out", "thinking", "images")


def list_models(search: str) -> int:
    """Print the available models that match the search; returns the exit code."""
    home = find_home()
    registry = open_registry(home)
    models = registry.available()
    tell_problems(home, registry)
    if not models:
        tell_none(home, registry)
        return 0
    matches = matching(models, search)
    if matches:
        sys.stdout.write(table(matches))
    else:
        sys.stderr.write(f'No models matching "{search}"\n')
    return 0


def open_registry(home: Home) -> ModelRegistry:
    """Return a registry of all models, including those of local servers."""
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file))
    registry.local_servers = SettingsFiles(home).current.local_servers
    registry.local.look_now()
    return registry


def matching(models: Sequence[Model], search: str) -> list[Model]:
    """Return the models that match a fuzzy search, sorted by provider and id."""
    matches = [model for model in models if fits_search(search, f"{model.provider} {model.id}")]
    return sorted(matches, key=lambda model: (id_order(model.provider), id_order(model.id)))


def table(models: Sequence[Model]) -> str:
    """Render models as a table with a header line."""
    return terminal.table([COLUMNS, *map(_row, models)])


def tell_none(home: Home, registry: ModelRegistry) -> None:
    """Explain on stderr why no model is available and how to add one."""
    from ludolf.cli.help import NAMELESS, NO_MODELS

    names = nameless(registry)
    sys.stderr.writelines(NAMELESS.format(provider=name) for name in names)
    if not names:
        sys.stderr.write(NO_MODELS.format(models_file=home.models_file))


def tell_problems(home: Home, registry: ModelRegistry) -> None:
    """Print errors and warnings of the model and key files on stderr."""
    if registry.errors:
        sys.stderr.write(f"Warning: errors in {home.models_file}:\n")
        sys.stderr.writelines(f"{text}\n" for text in registry.errors)
    keyring = registry.keyring
    warnings = (*keyring.warnings, *keyring.resolver.warnings, *registry.warnings)
    sys.stderr.writelines(f"Warning: {text}\n" for text in warnings)


def _row(model: Model) -> tuple[str, ...]:
    return (
        model.provider,
        model.id,
        _short(model.context_window),
        _short(model.max_tokens),
        "yes" if model.reasoning else "no",
        "yes" if model.takes_images else "no",
    )


def _short(tokens: int) -> str:
    """Format a token count: 128000 as 128K, 1048576 as 1.0M."""
    for unit, sign in ((1_000_000, "M"), (1_000, "K")):
        if tokens >= unit:
            count, remainder = divmod(tokens, unit)
            return f"{count}{sign}" if remainder == 0 else f"{tokens / unit:.1f}{sign}"
    return str(tokens)
