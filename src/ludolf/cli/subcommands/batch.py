"""`ludolf batch`: one prompt over many items, with a folder that can be resumed."""

import asyncio
import os
import sys
from collections.abc import Sequence

from ludolf.base import dumps
from ludolf.cli.process_list import hide
from ludolf.cli.terminal import say, unguarded
from ludolf.fleet.command import BatchCommand, read_command, split_words
from ludolf.fleet.dry_run import DryRunReport, report_dry_run
from ludolf.fleet.results import ALL_OK, CANNOT_START
from ludolf.fleet.run import BatchRun, run_shown

HELP = """\
usage: ludolf batch TASKS.jsonl ["PROMPT" | @FILE] [options]
       ludolf batch --each 'GLOB' | --lines FILE | -  "PROMPT" [options]

Run one prompt over many items: an agent, a workspace and a result for each. An
interrupted batch continues when the same command is given again. This is not
the Batch API of a provider: items are conversations with tools.

An item is a JSON object. Its fields fill {field} in the prompt. id, repo, ref,
folder, files, prompt, model, max_turns, max_tokens, max_cost and max_seconds
have a meaning (see docs/fleet.md).

Items
  --each GLOB            one item for each match: {path}, {name}
  --lines FILE           one item for each line: {line}
  --only ID              only this item; repeatable
  --first N              only the first N items
  --redo failed|ID       run recorded items again; repeatable
  --shard I/N            only shard I of N, counted from 0

Agents
  -j N                   agents at once (default: 8)
  --workers K            worker processes (default: one for 50 agents)
  --on ray[:HOST:PORT]   run the workers on a Ray cluster (pip install 'ludolf[ray]')
  --in clone|worktree|copy|here
                         workspace of an item (default: clone for git, else copy)
  --via CMD              start `ludolf --mode rpc` for an item by this command;
                         {name}, {folder} and {id} are filled in
  --via-end CMD          run after each item, to remove a container for example
  --schema FILE          JSON Schema of the field `value` of a result
  --check CMD            its exit code decides whether an item is ok
  --check-rounds N       send its output to the model up to N times (default: 0)

Limits
  --max-turns N, --max-tokens N, --max-cost USD, --max-seconds N
                         of one item (default: 3600 seconds)
  --budget USD           of the whole batch, with all resumes
  --retries N            attempts after transient failures (default: 2)

Output
  --out DIR              folder of the batch (default: TASKS.batch)
  --dry-run              show the prompts and check everything; send nothing
  --json                 print each result as a line of JSON on stdout
  --plain                no live table

Options of ludolf for models, tools, safety and prompts apply to every item.
--sandbox workspace is the default if this machine has a sandbox.

Exit codes: 0 all items are ok, 1 cannot start, 3 some failed, 4 budget used up,
5 stopped early, 130 interrupted.
"""


def run(words: Sequence[str]) -> int:
    """Run `ludolf batch WORDS`; returns the exit code.

    Raises:
        ConfigError: the batch cannot start.
    """
    own, rest = split_words(words)
    if own.help:
        say(HELP.rstrip())
        return 0
    command = read_command(own, rest)
    key = command.plan.setup.choices.get("apiKey")
    if key:
        hide(key)
    for text in command.warnings:
        sys.stderr.write(f"Warning: {text}\n")
    if command.dry_run:
        return _show(asyncio.run(report_dry_run(command.plan, command.out)), command)
    return asyncio.run(_run(command))


async def _run(command: BatchCommand) -> int:
    run = BatchRun(command.plan, command.out)
    try:
        stream = unguarded(sys.stderr)
        as_table = stream.isatty() and not command.plain and os.environ.get("TERM") != "dumb"
        code = await run_shown(
            run, stream, _print if command.json else _leave_in_file, as_table=as_table
        )
    finally:
        run.close()
    if not command.json:
        sys.stderr.write(f"Results: {command.out / 'results.jsonl'}\n")
    return code


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()


def _leave_in_file(line: bytes) -> None:
    """The result stands in the folder of the batch only."""


def _show(report: DryRunReport, command: BatchCommand) -> int:
    if command.json:
        say(dumps(report).decode())
    else:
        for item in report.items:
            say(f"--- {item.id}\n{item.prompt}")
        say(f"\n{len(report.items)} items to run, {report.recorded} recorded already.")
        if report.model is not None:
            say(f"Model: {report.model}")
        for note in report.notes:
            say(note)
    for problem in report.problems:
        sys.stderr.write(f"Problem: {problem}\n")
    return CANNOT_START if report.problems else ALL_OK
