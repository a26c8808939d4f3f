"""`--list-models`: the models that have credentials, as a table."""

import sys
from collections.abc import Sequence

from ludolf.ai.models import Model
from ludolf.config.auth import Keyring
from ludolf.config.home import Home, find_home
from ludolf.config.models import ModelRegistry

COLUMNS = ("provider", "model", "context", "max-out", "thinking", "images")


def list_models(search: str) -> int:
    """Show the models that can be used now and fit the search; returns the exit code."""
    home = find_home()
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file))
    models = registry.available()
    _tell_problems(home, registry)
    if not models:
        from ludolf.help import NO_MODELS

        sys.stderr.write(NO_MODELS.format(models_file=home.models_file))
        return 0
    found = sorted(matching(models, search), key=lambda model: (model.provider, model.id))
    if found:
        sys.stdout.write(table(found))
    else:
        sys.stderr.write(f'No models matching "{search}"\n')
    return 0


def matching(models: Sequence[Model], search: str) -> list[Model]:
    """The models that hold every word of the search; if none does, those that nearly do."""
    words = search.lower().split()
    for fits in (_holds, _nearly_holds):
        found = [model for model in models if all(fits(model, word) for word in words)]
        if found:
            return found
    return []


def table(models: Sequence[Model]) -> str:
    """One line per model under a line of headings, in columns."""
    rows = [COLUMNS, *map(_row, models)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def _tell_problems(home: Home, registry: ModelRegistry) -> None:
    if registry.errors:
        sys.stderr.write(f"Warning: errors in {home.models_file}:\n")
        sys.stderr.writelines(f"{text}\n" for text in registry.errors)
    sys.stderr.writelines(
        f"Warning: {text}\n" for text in (*registry.keyring.warnings, *registry.warnings)
    )


def _holds(model: Model, word: str) -> bool:
    return word in model.key.lower() or word in model.name.lower()


def _nearly_holds(model: Model, word: str) -> bool:
    """Whether the letters of the word occur in the model's key, in their order."""
    letters = iter(model.key.lower())
    return all(letter in letters for letter in word)


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
    """128000 as 128K, 1048576 as 1.0M."""
    for unit, sign in ((1_000_000, "M"), (1_000, "K")):
        if tokens >= unit:
            whole, rest = divmod(tokens, unit)
            return f"{whole}{sign}" if rest == 0 else f"{tokens / unit:.1f}{sign}"
    return str(tokens)
