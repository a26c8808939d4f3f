"""`ludolf models default`: show or set the model that sessions start with."""

import sys

from ludolf.base import CommandError
from ludolf.base.near import did_you_mean
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import (
    choose_model,
    initial_model,
    missing_key,
    unusable_default,
)
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.models import ensure_builtin, fallback


def show_default(registry: ModelRegistry, files: SettingsFiles) -> int:
    """Print the default model of the user's settings; returns 1 if it is unset or unusable."""
    settings = files.user
    provider, model_id = settings.default_provider, settings.default_model
    ensure_builtin(registry, provider or "")
    choice = initial_model(registry, settings) or fallback(registry)
    used = f"Sessions start with {choice.model.key}." if choice else "No model is ready."
    if not provider or not model_id:
        hint = "Set one: ludolf models default PROVIDER/ID"
        sys.stderr.write(f"No default model is set. {used} {hint}\n")
        return 1
    sys.stdout.write(f"{provider}/{model_id}\n")
    unusable = unusable_default(registry, settings)
    if unusable is not None:
        sys.stderr.write(f"Warning: {unusable} {used}\n")
    return 0 if unusable is None else 1


def set_default(registry: ModelRegistry, files: SettingsFiles, pattern: str) -> int:
    """Store the model that a pattern means, and its level, in the user's settings.

    Raises:
        ConfigError: no model matches.
        CommandError: the provider has no such model, or the file cannot be written.
    """
    ensure_builtin(registry, pattern)
    choice = choose_model(registry, pattern)
    model = choice.model
    if choice.warning is not None:
        near = did_you_mean(model.id, (one.id for one in registry.of_provider(model.provider)))
        raise CommandError(
            f'{model.provider} has no model "{model.id}" in the list.{near} '
            f"If it is new, run: ludolf models refresh {model.provider}"
        )
    changes: dict[str, str] = {"defaultProvider": model.provider, "defaultModel": model.id}
    if choice.level is not None:
        changes["defaultThinkingLevel"] = choice.level
    problem = files.save(changes)
    if problem is not None:
        raise CommandError(problem)
    level = f" with thinking level {choice.level}" if choice.level else ""
    sys.stdout.write(f"Default model: {model.key}{level}. Stored in {files.user_name}\n")
    if not registry.admits(model):
        key = missing_key(registry, model.provider)
        sys.stderr.write(f"Warning: {model.provider} has no credentials. {key}\n")
    return 0
