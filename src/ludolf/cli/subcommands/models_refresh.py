"""`ludolf models refresh`: fetch lists of models from providers and store them."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.failure_text import short_cause
from ludolf.ai.http.transport import Transport
from ludolf.ai.local import FILES, SERVERS
from ludolf.ai.model_lists import ListedModel, can_list, list_models
from ludolf.ai.models import Model
from ludolf.ai.secrets import redact, secrets_in
from ludolf.base import CommandError, ConfigError
from ludolf.config.auth.credentials import gateway_of, nameless
from ludolf.config.models.catalog import catalog_models
from ludolf.config.models.models_file import ModelEntry
from ludolf.config.models.models_store import News, compare, keep
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.home import Home, env_flag

OFFLINE = "Offline: the lists of models were not fetched. The stored lists are unchanged."
NO_LISTS = "No provider with credentials offers a list of models.\n"
_MOST_SHOWN = 20


class RefreshReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a refresh for one provider: `news`, or the text of an error."""

    provider: str
    news: News | None = None
    problem: str | None = None


def refresh(home: Home, registry: ModelRegistry, provider: str | None, *, offline: bool) -> int:
    """Fetch the list of one provider, or of all that offer one; returns the exit code.

    Raises:
        CommandError: the run is offline, or this provider has no list or no credentials.
    """
    if offline or env_flag("OFFLINE", os.environ):
        raise CommandError(OFFLINE)
    models = _to_ask(registry, provider)
    if not models:
        sys.stderr.write(NO_LISTS)
        return 1
    reports = asyncio.run(_ask_all(registry, models))
    width = max(len(report.provider) for report in reports)
    store = home.models_file.with_name("models-store.json")
    for report in reports:
        _keep_and_print(report, store, width)
    if any(report.news for report in reports):
        sys.stdout.write(f"Stored in {store}; used from the next start on.\n")
    return 1 if any(report.problem for report in reports) else 0


def ask_providers(registry: ModelRegistry) -> list[RefreshReport]:
    """Ask all providers with credentials for their lists; stores nothing.

    Raises:
        CommandError: the run is offline.
    """
    if env_flag("OFFLINE", os.environ):
        raise CommandError(OFFLINE)
    return asyncio.run(_ask_all(registry, _to_ask(registry, None)))


def _to_ask(registry: ModelRegistry, provider: str | None) -> list[Model]:
    """Return one model per provider whose server offers a list."""
    if provider is None:
        by_provider: dict[str, list[Model]] = {}
        unnamed = [model for name in nameless(registry) for model in _unnamed(registry, name)]
        for model in (*registry.available(), *unnamed):
            if model.provider not in (*SERVERS, FILES) and can_list(model):
                by_provider.setdefault(model.provider, []).append(model)
        return [_best(models) for models in by_provider.values()]
    if provider in (*SERVERS, FILES):
        raise CommandError(f"Models of {provider} are local: Ludolf lists them at every start.")
    models = registry.of_provider(provider) or _unnamed(registry, provider)
    if not models:
        raise CommandError(f'Unknown provider "{provider}". See: ludolf models list --all')
    listable = [model for model in models if can_list(model)]
    if not listable:
        raise CommandError(f"{provider} offers no list of models. Add them to models.json.")
    if not registry.admits(listable[0]):
        raise CommandError(f"No credentials for {provider}. Run: ludolf auth login {provider}")
    return [_best(listable)]


def _best(models: Sequence[Model]) -> Model:
    """Prefer the OpenAI API, which lists all models of a provider with several APIs."""
    return next((model for model in models if model.api == "openai-completions"), models[0])


def _unnamed(registry: ModelRegistry, provider: str) -> tuple[Model, ...]:
    """Return a placeholder model for a provider without listed models."""
    from ludolf.config.models.models_file import ProviderEntry, make_model

    entry = registry.entry(provider)
    if entry is None and not registry.knows(provider):
        return ()
    try:
        return (make_model(provider, entry or ProviderEntry(), ModelEntry(id="any"), None),)
    except ConfigError as error:
        raise CommandError(str(error)) from error


async def _ask_all(registry: ModelRegistry, models: Sequence[Model]) -> list[RefreshReport]:
    transport = Transport(os.environ)
    try:
        return await asyncio.gather(*(_ask(registry, transport, model) for model in models))
    finally:
        await transport.close()


async def _ask(registry: ModelRegistry, transport: Transport, model: Model) -> RefreshReport:
    provider = model.provider
    secrets: tuple[str, ...] = ()
    try:
        if registry.ends_soon(model):
            from ludolf.config.auth.renewal import renew

            await renew(registry.keyring, provider, gateway_of(registry, provider))
        access = await asyncio.to_thread(registry.access, model)
        if access is None:
            return RefreshReport(provider=provider, problem="the credentials cannot be used")
        secrets = tuple(secrets_in(access, model.base_url))
        listed = await list_models(transport, model, access)
    except ProviderError as error:
        problem = short_cause(redact(str(error), secrets, os.environ))
        return RefreshReport(provider=provider, problem=problem)
    return RefreshReport(provider=provider, news=_news(registry, provider, listed))


def _news(registry: ModelRegistry, provider: str, listed: Sequence[ListedModel]) -> News:
    entry = registry.entry(provider)
    # Entries of the user in models.json take precedence over the provider's list.
    own = {model.id for model in entry.models} if entry is not None else set()
    entries = [
        msgspec.convert(msgspec.to_builtins(model), ModelEntry)
        for model in listed
        if model.id not in own
    ]
    return compare(entries, {model.id: model for model in catalog_models(provider)})


def _keep_and_print(report: RefreshReport, path: Path, width: int) -> None:
    name = report.provider.ljust(width)
    news = report.news
    if news is None:
        sys.stdout.write(f"{name}  failed: {report.problem}\n")
        return
    keep(path, report.provider, news.entries)
    changed = f", {len(news.changed)} with new prices" if news.changed else ""
    sys.stdout.write(f"{name}  {news.listed} listed, {len(news.added)} new{changed}\n")
    for model_id in news.added[:_MOST_SHOWN]:
        sys.stdout.write(f"  + {model_id}\n")
    if len(news.added) > _MOST_SHOWN:
        sys.stdout.write(f"  and {len(news.added) - _MOST_SHOWN} more\n")
