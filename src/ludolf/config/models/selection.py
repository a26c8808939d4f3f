"""Select models: command line patterns, model scopes, the model at start."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ludolf.ai.local import FILE_SUFFIX, FILES
from ludolf.ai.messages import THINKING_LEVELS, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.base import ConfigError, expand_user, user_dir
from ludolf.config.auth.keys import ALSO_NEEDED, KEY_VARIABLES
from ludolf.config.models.models_file import ModelEntry, ProviderEntry, make_model
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.models.routes import PREFERRED
from ludolf.config.settings.settings import Settings

_LIST = "`ludolf models` lists the available models."


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model, the requested thinking level, and a warning for the user."""

    model: Model
    level: ThinkingLevel | None = None
    warning: str | None = None


class ModelPool(msgspec.Struct, frozen=True, kw_only=True):
    """The models to select at start and to cycle through; empty means all."""

    choices: tuple[ModelChoice, ...] = ()
    warnings: tuple[str, ...] = ()


def as_level(text: str) -> ThinkingLevel | None:
    """Return the thinking level of this name; None if there is none."""
    return next((level for level in THINKING_LEVELS if level == text), None)


def split_level(pattern: str) -> tuple[str, ThinkingLevel | None]:
    """Split a pattern into its name and the level of a `:level` suffix, if it has one."""
    head, colon, tail = pattern.rpartition(":")
    level = as_level(tail) if colon else None
    return (head, level) if level else (pattern, None)


def match_pattern(
    pattern: str, models: Sequence[Model], ready: Sequence[Model] = ()
) -> ModelChoice | None:
    """Return the model that matches a pattern, with the level of a `:level` suffix.

    If several match, those in `ready` are preferred.
    """
    model = (
        match_exact(pattern, models)
        or match_exact(pattern, ready)
        or match_part(pattern, ready)
        or match_part(pattern, models)
    )
    if model is not None:
        return ModelChoice(model=model)
    name, level = split_level(pattern)
    inner = match_pattern(name, models, ready) if level else None
    return inner and ModelChoice(model=inner.model, level=inner.level or level)


def match_exact(pattern: str, models: Iterable[Model]) -> Model | None:
    """Return the model with this `provider/id` or id; None if several providers have the id."""
    lowered = pattern.lower()
    by_id: list[Model] = []
    for model in models:
        if model.key.lower() == lowered:
            return model
        if model.id.lower() == lowered:
            by_id.append(model)
    return by_id[0] if len(by_id) == 1 else None


def match_part(pattern: str, models: Iterable[Model]) -> Model | None:
    """Return the preferred model whose id or name contains the pattern."""
    from ludolf.config.models.ranking import best_match

    lowered = pattern.lower()
    matches = [m for m in models if lowered in m.id.lower() or lowered in m.name.lower()]
    return best_match(pattern, matches)


def choose_model(registry: ModelRegistry, pattern: str, provider: str | None = None) -> ModelChoice:
    """Return the model of `--model`, with `--provider` if given.

    Raises:
        ConfigError: no model matches, or the pattern is ambiguous.
    """
    pattern = pattern.strip()
    local = _on_this_machine(registry, pattern, provider)
    if local is not None:
        return local
    if provider is not None:
        owner = require_provider(registry, provider)
        wanted = pattern
        if wanted.lower().startswith(f"{owner.lower()}/"):
            wanted = wanted[len(owner) + 1 :]
        return _in_provider(registry, owner, wanted) or _custom(registry, owner, wanted)
    head, slash, rest = pattern.partition("/")
    named = _known_provider(registry, head) if slash else None
    if named is not None and (choice := _in_provider(registry, named, rest)):
        return choice
    return _among_all(registry, pattern, named, rest)


def default_of(registry: ModelRegistry, provider: str) -> ModelChoice:
    """Return the default model of a provider, for `--provider` without `--model`.

    Raises:
        ConfigError: the provider is unknown, or no model of it is known.
    """
    if provider.lower() in LOCAL:
        registry.local.look_now()
        if not registry.of_provider(provider.lower()):
            raise ConfigError(_none_here(provider.lower()))
    owner = require_provider(registry, provider)
    models = registry.of_provider(owner)
    if not models:
        raise ConfigError(
            f"Ludolf ships no models of {owner}. Pass one with --model {owner}/ID, or fetch "
            f"their list: ludolf models refresh {owner}"
        )
    preferred = registry.find(owner, PREFERRED.get(owner, ""))
    return ModelChoice(model=preferred or models[0])


def _none_here(provider: str) -> str:
    from ludolf.ai.local.kinds import KINDS

    kind = KINDS.get(provider)
    text = f"No models of {provider} were found on this machine."
    return f"{text} {kind.start}" if kind else f"{text} Pass the path of a file with --model."


def require_provider(registry: ModelRegistry, name: str) -> str:
    """Return the id of a provider, in its own spelling.

    Raises:
        ConfigError: the provider is unknown.
    """
    owner = _known_provider(registry, name)
    if owner is None:
        from ludolf.base.near import did_you_mean

        near = did_you_mean(name, registry.providers())
        raise ConfigError(f'Unknown provider "{name}".{near} {_LIST}')
    return owner


def resolve_scope(patterns: Iterable[str], models: Sequence[Model]) -> ModelPool:
    """Return the models of `--models` or `enabledModels`, in the order of the patterns."""
    choices: dict[str, ModelChoice] = {}
    warnings: list[str] = []
    for pattern in patterns:
        found, warning = _scope_matches(pattern.strip(), models)
        if warning:
            warnings.append(warning)
        for choice in found:
            choices.setdefault(choice.model.key, choice)
    return ModelPool(choices=tuple(choices.values()), warnings=tuple(warnings))


def initial_model(
    registry: ModelRegistry,
    settings: Settings,
    *,
    chosen: ModelChoice | None = None,
    scope: ModelPool | None = None,
    resumed: tuple[str, str] | None = None,
) -> ModelChoice | None:
    """Return the model at start; None if no model with credentials exists.

    Order: the one of the command line; in a new session the scope; the one that a resumed session
    used; the saved default; the first preferred one; any.
    """
    if chosen is not None:
        return chosen
    saved = _usable(registry, settings.default_provider, settings.default_model)
    if scope is not None and scope.choices and resumed is None:
        for choice in scope.choices:
            if saved is not None and choice.model.key == saved.key:
                return choice
        return scope.choices[0]
    again = _usable(registry, *resumed) if resumed else None
    if again is not None:
        return ModelChoice(model=again)
    other = ModelChoice(model=saved) if saved else _any_model(registry)
    if resumed is None or other is None:
        return other
    text = f"Could not restore model {resumed[0]}/{resumed[1]}. Using {other.model.key}"
    return ModelChoice(model=other.model, warning=text)


def unusable_default(registry: ModelRegistry, settings: Settings) -> str | None:
    """Return why the default model of the settings cannot be used; None if it can, or is unset."""
    provider, model_id = settings.default_provider, settings.default_model
    if not provider or not model_id or _usable(registry, provider, model_id) is not None:
        return None
    exists = registry.find(provider, model_id) is not None
    reason = f"has no credentials: {missing_key(registry, provider)}" if exists else "is unknown."
    return f"The default model {provider}/{model_id} of settings.json {reason}"


def missing_key(registry: ModelRegistry, provider: str) -> str:
    """Return a sentence that says how to give a provider a key."""
    if registry.entry(provider) is not None and provider not in KEY_VARIABLES:
        return f'Set "apiKey" of the provider "{provider}" in {registry.path}.'
    variables = KEY_VARIABLES.get(provider, ())
    command = f"run `ludolf auth login {provider}`"
    if not variables:
        return f"{command[0].upper()}{command[1:]}."
    # The last variable is the one of an API key; those before it hold tokens.
    also = [" or ".join(group) for group in ALSO_NEEDED.get(provider, ())]
    return f"Set {' and '.join((variables[-1], *also))} in the environment, or {command}."


def thinking_level(
    settings: Settings, choice: ModelChoice | None, asked: ThinkingLevel | None = None
) -> ThinkingLevel:
    """Return the thinking level at start, before it is clamped to the model's levels."""
    if asked is not None:
        return asked
    if choice is not None and choice.level is not None:
        return choice.level
    own = settings.model_thinking_levels.get(choice.model.key) if choice is not None else None
    return own or settings.default_thinking_level or "medium"


# ---------------------------------------------------------------- the command line


def _on_this_machine(
    registry: ModelRegistry, pattern: str, provider: str | None
) -> ModelChoice | None:
    """Return a model of a local provider before a scan, or a GGUF file by its path."""
    head, slash, rest = pattern.partition("/")
    owner = provider or (head if slash else "")
    wanted = rest if slash and head.lower() == owner.lower() else pattern
    owner = owner.lower()
    if provider is None and _names_file(pattern) and not (owner == FILES and rest):
        owner, wanted = FILES, pattern
    if owner not in LOCAL or registry.find(owner, wanted) is not None:
        return None
    name, level = split_level(wanted)
    if owner == FILES and _names_file(name):
        name = os.path.abspath(expand_user(name, user_dir(registry.keyring.environ)))
    model = registry.expected(owner, name)
    return ModelChoice(model=model, level=level) if model is not None else None


def _names_file(pattern: str) -> bool:
    """Return whether this is the path of a GGUF file, with an optional level suffix."""
    return split_level(pattern)[0].lower().endswith(FILE_SUFFIX)


def _known_provider(registry: ModelRegistry, name: str) -> str | None:
    if registry.knows(name):
        return name
    return next((one for one in registry.providers() if one.lower() == name.lower()), None)


def _in_provider(registry: ModelRegistry, provider: str, pattern: str) -> ModelChoice | None:
    exact = registry.find(provider, pattern)
    if exact is not None:
        return ModelChoice(model=exact)
    return match_pattern(pattern, registry.of_provider(provider))


def _among_all(registry: ModelRegistry, pattern: str, owner: str | None, rest: str) -> ModelChoice:
    models = registry.all()
    same = [model for model in models if model.id.lower() == pattern.lower()]
    if len(same) > 1:
        return ModelChoice(model=_only_admitted(registry, pattern, same))
    if owner is None:
        # A part of a name, such as `sonnet`, matches models of many providers.
        choice = match_pattern(pattern, models, registry.available())
        if choice is None and registry.local.look_now():
            choice = match_pattern(pattern, registry.all())
        if choice is None:
            from ludolf.base.near import did_you_mean

            near = did_you_mean(pattern, _names(models, words="/" not in pattern))
            raise ConfigError(f'Model "{pattern}" not found.{near} {_LIST}')
        return choice
    return ModelChoice(model=same[0]) if same else _custom(registry, owner, rest)


def _names(models: Iterable[Model], *, words: bool) -> Iterator[str]:
    """Yield what users call models: their ids, with and without provider, and words of the ids."""
    for model in models:
        if words:
            yield from re.findall(r"[a-z]{4,}", model.id.lower())
        yield from (model.id, model.key)


def _only_admitted(registry: ModelRegistry, pattern: str, same: list[Model]) -> Model:
    admitted = [model for model in same if registry.admits(model)]
    if len(admitted) == 1:
        return admitted[0]
    names = ", ".join(model.key for model in same)
    why = "More than one matching provider is" if admitted else "No matching provider is"
    raise ConfigError(
        f'Model "{pattern}" is ambiguous across providers: {names}. '
        f"{why} authenticated. Name it as provider/model."
    )


def _custom(registry: ModelRegistry, provider: str, pattern: str) -> ModelChoice:
    model_id, level = split_level(pattern)
    if not model_id:
        model_id, level = pattern, None
    preferred = registry.find(provider, PREFERRED.get(provider, ""))
    default = preferred or _kin(registry, provider, model_id)
    # A requested level implies that the unknown model supports thinking.
    thinks = default.reasoning or level not in (None, "off")
    model = default.replace(id=model_id, name=model_id, reasoning=thinks)
    text = f'Model "{model_id}" not found for provider "{provider}". Using custom model id.'
    return ModelChoice(model=model, level=level, warning=text)


def _kin(registry: ModelRegistry, provider: str, model_id: str) -> Model:
    """Return another model of the provider, or one made from its route if none is known."""
    models = registry.of_provider(provider)
    if models:
        return models[0]
    owner = registry.entry(provider) or ProviderEntry()
    return make_model(provider, owner, ModelEntry(id=model_id), None)


# ---------------------------------------------------------------- scopes


def _scope_matches(
    pattern: str, models: Sequence[Model]
) -> tuple[tuple[ModelChoice, ...], str | None]:
    from ludolf.config.models.patterns import is_glob, matches_glob

    nothing = f'No models match pattern "{pattern}"'
    if is_glob(pattern) and match_exact(pattern, models) is None:
        glob, level = split_level(pattern)
        choices = tuple(
            ModelChoice(model=model, level=level)
            for model in models
            if matches_glob(glob, model.key) or matches_glob(glob, model.id)
        )
        return choices, None if choices else nothing
    choice = match_pattern(pattern, models)
    if choice is not None:
        return (choice,), None
    head, colon, tail = pattern.rpartition(":")
    loose = match_pattern(head, models) if colon and head else None
    if loose is None:
        return (), nothing
    text = f'Invalid thinking level "{tail}" in pattern "{pattern}". Using default instead.'
    return (loose,), text


# ---------------------------------------------------------------- the start


def _usable(registry: ModelRegistry, provider: str | None, model_id: str | None) -> Model | None:
    if not provider or not model_id:
        return None
    try:
        model = registry.find(provider, model_id) or registry.expected(provider, model_id)
    except ConfigError:
        return None
    return model if model is not None and registry.admits(model) else None


def _any_model(registry: ModelRegistry) -> ModelChoice | None:
    for provider, model_id in PREFERRED.items():
        if not registry.admits_provider(provider):
            continue
        model = _usable(registry, provider, model_id)
        if model is not None:
            return ModelChoice(model=model)
    available = registry.available()
    return ModelChoice(model=available[0]) if available else None
