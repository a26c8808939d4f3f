"""`ludolf.batch`: run a batch from Python and iterate over its results."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import ConfigError
from ludolf.config.settings.session_request import choice_fields
from ludolf.fleet.command import read_schema, read_shard
from ludolf.fleet.orders import FleetSetup, ItemLimits
from ludolf.fleet.plan import BatchPlan, ItemChoice, absolute_paths, batch_name
from ludolf.fleet.results import ItemResult
from ludolf.fleet.run import BatchRun
from ludolf.fleet.table import SilentView
from ludolf.fleet.tasks import items_given
from ludolf.fleet.workspace import WorkspaceKind

_decoder = msgspec.json.Decoder(ItemResult)


class BatchOptions(TypedDict, total=False):
    """Options of `ludolf.batch`. All are optional.

    jobs          agents at once; default: 8
    workers       worker processes; default: one for 50 agents, at most one for each core
    workspace     "clone", "worktree", "copy" or "here"; default: clone for git, else copy
    via, via_end  commands that start `ludolf --mode rpc` for an item, and that end it
    schema        JSON Schema of `value`: a dict, or the path of a file
    check, check_rounds  command that decides the status, and how often its output is sent back
    max_turns, max_tokens, max_cost, max_seconds  limits of each item; seconds: 3600
    budget        US dollars for the whole batch with all resumes
    retries       attempts after transient failures; default: 2
    out           folder of the batch, which can be resumed; default: a temporary one
    only, first, redo, shard  selection, as on the command line; `shard` is "I/N"
    on            "ray", "ray:HOST:PORT" or "ray://HOST:PORT": a Ray cluster; default: this machine
    model, api_key, thinking, tools, sandbox  as for a session on the command line
    session_options  all other options of sessions, such as {"exclude_tools": ["bash"]}
    """

    jobs: int
    workers: int
    workspace: WorkspaceKind
    via: str
    via_end: str
    schema: Mapping[str, Any] | str
    check: str
    check_rounds: int
    max_turns: int
    max_tokens: int
    max_cost: float
    max_seconds: float
    budget: float
    retries: int
    out: str | os.PathLike[str]
    only: Iterable[str]
    first: int
    redo: Iterable[str]
    shard: str
    on: str
    model: str
    api_key: str
    thinking: str
    tools: Iterable[str]
    sandbox: str
    session_options: Mapping[str, Any]


_OF_SESSION = ("model", "api_key", "thinking", "tools", "sandbox")
_SAME = ("via", "via_end", "check", "check_rounds")
_LIMITS = ("max_turns", "max_tokens", "max_cost", "max_seconds")


async def batch(
    items: Iterable[Mapping[str, Any]], prompt: str | None = None, **options: Unpack[BatchOptions]
) -> AsyncGenerator[ItemResult]:
    """Run a prompt over many items and yield each result when it is stored.

    Leaving the loop early aborts the running items; with `out`, the same call resumes the batch.

    >>> import asyncio
    >>> import ludolf
    >>> async def main() -> list[str]:
    ...     items = [{"id": "a", "file": "a.txt"}]
    ...     results = ludolf.batch(items, "read {file}", model="ludolf/offline")
    ...     return [f"{result.id}: {result.status}" async for result in results]
    >>> asyncio.run(main())
    ['a: ok']

    Raises:
        ConfigError: an option or an item is invalid, or no worker can start.
    """
    given = options.get("out")
    out = _out_folder(given)
    try:
        run = BatchRun(_plan(items, prompt, options, out), out)
        try:
            async for line in _lines(run):
                yield _decoder.decode(line)
        finally:
            run.close()
    finally:
        if given is None:
            shutil.rmtree(out, ignore_errors=True)


def _out_folder(given: str | os.PathLike[str] | None) -> Path:
    return Path(given or tempfile.mkdtemp(prefix="ludolf-batch-")).expanduser().absolute()


async def _lines(run: BatchRun) -> AsyncGenerator[bytes]:
    results: asyncio.Queue[bytes | None] = asyncio.Queue()
    driver = run.driver(SilentView(), results.put_nowait)

    async def drive() -> None:
        try:
            await run.drive(driver)
        finally:
            results.put_nowait(None)

    tasks = Tasks()
    driving = tasks.start(drive())
    try:
        while (line := await results.get()) is not None:
            yield line
        await driving
    finally:
        driver.terminate()
        await tasks.close()


def _plan(
    items: Iterable[Mapping[str, Any]], prompt: str | None, options: BatchOptions, out: Path
) -> BatchPlan:
    unknown = set(options) - BatchOptions.__optional_keys__
    if unknown:
        known = ", ".join(sorted(BatchOptions.__optional_keys__))
        raise ConfigError(f"Unknown option: {', '.join(sorted(unknown))}. Options: {known}.")
    shard = options.get("shard")
    plan = BatchPlan(
        items=items_given(items),
        prompt=prompt,
        setup=_setup(options, out),
        choice=ItemChoice(
            only=tuple(options.get("only", ())),
            first=options.get("first"),
            redo=tuple(options.get("redo", ())),
            shard=read_shard(shard) if shard is not None else None,
        ),
        jobs=options.get("jobs", 8),
        workers=options.get("workers"),
        budget=options.get("budget"),
        retries=options.get("retries", 2),
        on=options.get("on"),
    )
    plan.check()
    return plan


def _setup(options: BatchOptions, out: Path) -> FleetSetup:
    given: Any = options
    start, schema = os.getcwd(), options.get("schema")
    if isinstance(schema, str):
        schema = read_schema(Path(start), schema)
    return FleetSetup(
        start=start,
        out=str(out),
        name=batch_name(out),
        choices=absolute_paths(_choices(options), Path(start)),
        limits=ItemLimits(**{name: given[name] for name in _LIMITS if name in given}),
        kind=options.get("workspace"),
        schema=dict(schema) if schema is not None else None,
        **{name: given[name] for name in _SAME if name in given},
    )


def _choices(options: BatchOptions) -> dict[str, Any]:
    given: Any = options
    by_name = {field.name: name for name, field in choice_fields().items()}
    values = {name: given[name] for name in _OF_SESSION if name in given}
    values |= options.get("session_options", {})
    unknown = sorted(set(values) - set(by_name))
    if unknown:
        raise ConfigError(f"Unknown option of a session: {', '.join(unknown)}.")
    lists = (list, tuple, set)
    return {
        by_name[name]: list(value) if isinstance(value, lists) else value
        for name, value in values.items()
    }
