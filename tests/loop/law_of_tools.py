"""The order of the tool calls of one answer."""

from collections.abc import Sequence


class ToolLaws:
    """Calls start in the order of the answer; results follow in it; ends come as they come.

    Either all calls have ended before the first result, or each call has its result before the
    next one starts.
    """

    def __init__(self, calls: Sequence[str]) -> None:
        self._calls = list(calls)
        self._started: list[str] = []
        self._ended: list[str] = []
        self._results: list[str] = []

    @property
    def done(self) -> bool:
        return self._results == self._calls

    def start(self, call: str) -> None:
        assert call == self._calls[len(self._started)], f"{call} started out of order"
        assert not self._results or self._results == self._started, (
            f"{call} started among the results of calls that ran side by side"
        )
        self._started.append(call)

    def update(self, call: str) -> None:
        assert call in self._started, f"{call} told of progress before its start"
        assert call not in self._ended, f"{call} told of progress after its end"

    def end(self, call: str) -> None:
        assert call in self._started, f"{call} ended before its start"
        assert call not in self._ended, f"{call} ended twice"
        self._ended.append(call)

    def result(self, call: str) -> None:
        assert call == self._calls[len(self._results)], f"the result of {call} is out of order"
        assert call in self._ended, f"the result of {call} came before its end"
        alone = self._started == [*self._results, call]
        together = sorted(self._ended) == sorted(self._calls)
        assert alone or together, f"the result of {call} came while other calls ran"
        self._results.append(call)
