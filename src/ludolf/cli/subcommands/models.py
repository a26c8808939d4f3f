"""`ludolf models`: list models, show one, set the default, fetch new ones, print a schema."""

import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ludolf.ai.models import Model, thinking_levels
from ludolf.base import CommandError, dumps
from ludolf.base.near import did_you_mean
from ludolf.cli.dialect import dialect_of
from ludolf.cli.help import NAMELESS, NO_MODELS
from ludolf.cli.subcommands import with_default
from ludolf.cli.terminal import say_json, table
from ludolf.config.auth.credentials import nameless
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.patterns import fits_search, id_order
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.settings.home import Home, find_home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.models import ensure_builtin

COLUMNS = ("provider", "model", "context", "max-out", "thinking", "images")


def run(words: Sequence[str]) -> int:
    """Run `ludolf models WORDS`; returns the exit code.

    Raises:
        LudolfError: the command failed; the text is for the user.
    """
    parser = _parser()
    arguments = parser.parse_args(with_default(parser, words, "list"))
    home = find_home(None, os.environ)
    act: Callable[[Home, Namespace], int] = arguments.act
    return act(home, arguments)


def run_update(words: Sequence[str]) -> int:
    """Run `ludolf update --models`, pi's name of `ludolf models refresh`; returns the exit code.

    Raises:
        LudolfError: the command failed; the text is for the user.
    """
    about = "Same as `ludolf models refresh`, under pi's name."
    parser = ArgumentParser(prog="ludolf update", allow_abbrev=False, description=about)
    parser.add_argument(
        "--models", action="store_true", required=True, help="fetch lists of models from providers"
    )
    parser.add_argument("--offline", action="store_true", help="send nothing (as PI_OFFLINE=1)")
    parser.set_defaults(provider=None)
    return _refresh(find_home(None, os.environ), parser.parse_args(words))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ludolf models",
        allow_abbrev=False,
        description="List models, show one, set the default one, fetch new ones, print a schema.",
    )
    parser.set_defaults(act=_list, search=(), all=False)
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    words = parser.add_subparsers(metavar="COMMAND", help="default: list")

    def word(
        name: str, act: Callable[[Home, Any], int], about: str, *aliases: str
    ) -> ArgumentParser:
        command = words.add_parser(
            name, help=about, description=about, aliases=aliases, allow_abbrev=False
        )
        command.set_defaults(act=act)
        return command

    listing = word("list", _list, "list the models that have credentials", "ls")
    listing.add_argument("search", nargs="*", metavar="SEARCH", help="part of provider and id")
    listing.add_argument("--all", action="store_true", help="also models without credentials")
    _add_json(listing, "print JSON lines, for scripts")
    show = word("show", _show, "show the properties of one model")
    show.add_argument("model", metavar="MODEL", help="as --model takes it")
    _add_json(show, "print JSON, for scripts")
    default = word("default", _default, "show the default model, or set it in settings.json")
    default.add_argument("model", nargs="?", metavar="MODEL", help="as --model takes it")
    refresh = word("refresh", _refresh, "fetch lists of models from providers and store them")
    refresh.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="default: all that offer a list"
    )
    refresh.add_argument("--offline", action="store_true", help="send nothing (as PI_OFFLINE=1)")
    word("schema", _schema, "print the JSON Schema of models.json")
    return parser


def _add_json(command: ArgumentParser, about: str) -> None:
    # The default must not replace the value of the same flag before the command.
    command.add_argument("--json", action="store_true", default=SUPPRESS, help=about)


def _list(home: Home, arguments: Namespace) -> int:
    registry = _open_registry(home)
    models = registry.all() if arguments.all else registry.available()
    _tell_problems(home, registry)
    search = " ".join(arguments.search)
    matches = _matching(models, search)
    if arguments.json and dialect_of() == "omp":
        say_json({"models": [_as_in_omp(model) for model in matches]})
    elif arguments.json:
        for model in matches:
            say_json(_facts(registry, model))
    elif matches:
        sys.stdout.write(table([COLUMNS, *map(_row, matches)]))
    else:
        _tell_none(home, registry, search if models else None)
        _tell_others(registry, search)
    return 0


def _show(home: Home, arguments: Namespace) -> int:
    registry = _open_registry(home)
    _tell_problems(home, registry)
    model = _find(registry, arguments.model)
    if arguments.json:
        say_json(_facts(registry, model))
    else:
        sys.stdout.write(table(_rows(registry, model)))
    return 0


def _default(home: Home, arguments: Namespace) -> int:
    from ludolf.cli.subcommands.models_default import set_default, show_default

    registry = _open_registry(home)
    _tell_problems(home, registry)
    files = SettingsFiles(home)
    if arguments.model is None:
        return show_default(registry, files)
    return set_default(registry, files, arguments.model)


def _refresh(home: Home, arguments: Namespace) -> int:
    from ludolf.cli.subcommands.models_refresh import refresh

    registry = _open_registry(home)
    _tell_problems(home, registry)
    return refresh(home, registry, arguments.provider, offline=arguments.offline)


def _schema(home: Home, arguments: Namespace) -> int:
    from ludolf.config.models.models_schema import FILE

    sys.stdout.write(FILE.read_text(encoding="utf-8"))
    return 0


# ---------------------------------------------------------------- all models


def _open_registry(home: Home) -> ModelRegistry:
    """Return a registry of all models, including those of local servers."""
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file, os.environ))
    registry.local_servers = SettingsFiles(home).current.local_servers
    registry.local.look_now()
    return registry


def _matching(models: Sequence[Model], search: str) -> list[Model]:
    """Return the models that match a fuzzy search, sorted by provider and id."""
    matches = [model for model in models if fits_search(search, f"{model.provider} {model.id}")]
    return sorted(matches, key=lambda model: (id_order(model.provider), id_order(model.id)))


def _tell_none(home: Home, registry: ModelRegistry, search: str | None) -> None:
    """Explain on stderr why no model is listed and how to add one."""
    if search is not None:
        sys.stderr.write(f'No models matching "{search}"\n')
        return
    names = nameless(registry)
    sys.stderr.writelines(NAMELESS.format(provider=name) for name in names)
    if not names:
        sys.stderr.write(NO_MODELS.format(models_file=home.models_file))


def _tell_others(registry: ModelRegistry, search: str) -> None:
    """Count the models without credentials that match a search."""
    others = len(_matching(registry.all(), search)) if search else 0
    if others:
        sys.stderr.write(
            f"Without credentials: {others} models match. "
            f"List them with `ludolf models --all {search}`\n"
        )


def _tell_problems(home: Home, registry: ModelRegistry) -> None:
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


# ---------------------------------------------------------------- one model


def _find(registry: ModelRegistry, name: str) -> Model:
    """Return the model that `--model` would select.

    Raises:
        ConfigError: several models match, or none.
        CommandError: the provider has no such model.
    """
    from ludolf.config.models.selection import choose_model

    pattern = name.strip()
    ensure_builtin(registry, pattern)
    choice = choose_model(registry, pattern)
    if choice.warning is None:
        return choice.model
    near = did_you_mean(pattern, (one.key for one in registry.all()))
    raise CommandError(f'Model "{name}" was not found.{near} See: ludolf models list --all {name}')


def _facts(registry: ModelRegistry, model: Model) -> dict[str, Any]:
    properties: dict[str, Any] = msgspec.to_builtins(model)
    return {**properties, "available": registry.admits(model)}


def _as_in_omp(model: Model) -> dict[str, Any]:
    """Return the properties of a model that `omp models list --json` prints, in its order."""
    levels = [level for level in thinking_levels(model) if level != "off"]
    return {
        "provider": model.provider,
        "id": model.id,
        "selector": model.key,
        "name": model.name,
        "contextWindow": model.context_window,
        "maxTokens": model.max_tokens,
        "reasoning": model.reasoning,
        "thinking": levels if model.reasoning else None,
        "input": model.input,
        "cost": model.cost,
    }


def _rows(registry: ModelRegistry, model: Model) -> list[tuple[str, str]]:
    cost = model.cost
    rows = [
        ("model", model.key),
        ("name", model.name),
        ("source", _source(registry, model)),
        ("credentials", "yes" if registry.admits(model) else "no"),
        ("api", model.api),
        ("address", model.base_url),
        ("context", f"{model.context_window} tokens"),
        ("output", f"{model.max_tokens} tokens at most"),
        ("input", ", ".join(model.input)),
        ("thinking", ", ".join(thinking_levels(model))),
        ("price", f"{_dollars(cost)} per million tokens (USD)"),
    ]
    tiers = cost.tiers or ()
    rows += [("", f"{_dollars(tier)} above {tier.input_tokens_above} tokens") for tier in tiers]
    for name, value in (
        ("cache", model.prompt_cache),
        ("limits", model.input_limits),
        ("sampling", model.sampling_params),
        ("compat", model.compat),
    ):
        if value:
            rows.append((name, dumps(value).decode()))
    return rows


def _dollars(rates: Any) -> str:
    return (
        f"{rates.input:g} input, {rates.output:g} output, "
        f"{rates.cache_read:g} cache read, {rates.cache_write:g} cache write"
    )


def _source(registry: ModelRegistry, model: Model) -> str:
    from ludolf.config.models.catalog import catalog_models

    entry = registry.entry(model.provider)
    if model.provider in LOCAL:
        return "this machine"
    if entry is not None and any(one.id == model.id for one in entry.models):
        return "models.json"
    shipped = any(one.id == model.id for one in catalog_models(model.provider))
    return "built-in catalog" if shipped else "models-store.json"
