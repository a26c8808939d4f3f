"""The result of an item, as a line of `results.jsonl`, and the exit codes of a batch."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from ludolf.base import Value

ItemStatus = Literal["ok", "failed", "limit", "budget"]
HowStarted = Literal["new", "continued", "collected"]
# Longer patches stand only in the file `patch.diff` of the item.
PATCH_IN_RESULT = 64 * 1024
CHECK_TAIL = 4 * 1024

# Failures that every other item would have too; a resume runs these items again.
STOPS_BATCH = frozenset(("auth", "quota", "disk"))

ALL_OK, CANNOT_START, SOME_FAILED, BUDGET_USED, STOPPED_EARLY, INTERRUPTED = 0, 1, 3, 4, 5, 130


class ItemUsage(Value, omit_defaults=False):
    """Tokens, and the cost in US dollars, of all attempts of an item."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0


class ItemError(Value):
    """Why an item failed; `kind` is that of the model's failure, or the part that failed."""

    kind: str
    text: str


class CheckOutcome(Value):
    """The exit code of `--check` and the end of its output; -1 if it was stopped."""

    code: int
    tail: str


class ItemResult(Value, kw_only=True):
    """One finished item. Paths are relative to the folder of the batch.

    `patch` is absent without a repository or a copy, and if it is longer than 64 KiB: then
    `patch_file` names it. `value` is there with `--schema`. `model` is absent if none answered.
    """

    id: str
    status: ItemStatus
    attempts: int
    how: HowStarted
    answer: str
    value: Any = UNSET
    patch: str | None = None
    patch_file: str | None = None
    base: str | None = None
    usage: ItemUsage
    turns: int
    seconds: float
    model: str | None = None
    session: str | None = None
    error: ItemError | UnsetType = field(default=UNSET)
    check: CheckOutcome | UnsetType = field(default=UNSET)
    item: dict[str, Any]
