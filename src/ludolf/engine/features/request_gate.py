"""Each request to the model waits at a gate that many sessions share.

A server that refuses a request because of too many requests gets it again when the gate opens: it
is neither an error nor a retry.
"""

import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.gate import GateReport, RequestGate, lane_of
from ludolf.ai.http.rate_limits import gate_report
from ludolf.ai.provider import Provider, ProviderWrapper, Request
from ludolf.engine.bundles import Bundles
from ludolf.engine.feature import Feature, Features

# A request that the server refuses this often fails with the server's error.
MOST_REFUSALS = 20


class GatedRequests(Feature):
    """The requests of one engine. `waited` is the time at the gate so far, in seconds."""

    def __init__(self, gate: RequestGate, features: Features | None = None) -> None:
        self.gate = gate
        self._features = features or Features()
        self.waited = 0.0
        self.refused = 0

    def wrap_provider(self, provider: Provider) -> Provider:
        return GatedProvider(provider, self)

    def for_subagent(self, bundles: Any) -> "GatedRequests":
        return GatedRequests(self.gate, bundles.features)

    async def enter(self, lane: str, provider: str = "") -> "Passage":
        """Wait at the gate."""
        since = time.monotonic()
        try:
            return Passage(self.gate, await self.gate.enter(lane))
        finally:
            seconds = time.monotonic() - since
            self.waited += seconds
            for feature in self._features.hooks["on_gate_wait"]:
                feature.on_gate_wait(provider, seconds)


class Passage:
    """One request on its way through the gate."""

    def __init__(self, gate: RequestGate, ticket: int) -> None:
        self._gate = gate
        self._ticket = ticket
        self._report: GateReport | None = None

    def take_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Called with the head of the server's answer."""
        self._pass_on(gate_report(status, headers))

    def accept(self) -> None:
        """Called when the answer starts; a provider without HTTP has no head."""
        if self._report is None:
            self._pass_on(GateReport(status=200))

    def is_refusal(self, error: ProviderError) -> bool:
        """Whether the server had too many requests, so that the request is sent again."""
        if self._report is None and error.kind == "rate_limit":
            self._pass_on(GateReport(status=429, retry_after=error.retry_after))
        refused = self._report is not None and self._report.refused
        # A used-up quota has the status 429 too; a wait does not change it.
        return refused and error.kind in ("rate_limit", "overloaded")

    def leave(self) -> None:
        self._gate.leave(self._ticket)

    def _pass_on(self, report: GateReport) -> None:
        self._report = report
        self._gate.report(self._ticket, report)


class GatedProvider(ProviderWrapper):
    """A provider whose requests wait at the gate."""

    def __init__(self, inner: Provider, requests: GatedRequests) -> None:
        super().__init__(inner)
        self._requests = requests

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        lane, refusals, started = lane_of(request), 0, False
        while True:
            passage = await self._requests.enter(lane, request.model.provider)
            sent = structs.replace(request, on_head=passage.take_head)
            try:
                async with aclosing(self._inner.stream(sent, draft)) as stream:
                    async for events in stream:
                        started = True
                        passage.accept()
                        yield events
                return
            except ProviderError as error:
                refusals += 1
                if started or not passage.is_refusal(error) or _is_final(error, request, refusals):
                    raise
                self._requests.refused += 1
            finally:
                passage.leave()


def _is_final(error: ProviderError, request: Request, refusals: int) -> bool:
    """Return whether the server asks for a longer wait than the user allows, or refuses always."""
    is_long = bool(request.max_wait) and (error.retry_after or 0) > request.max_wait
    return is_long or refusals >= MOST_REFUSALS


def refresh_gate(bundles: Bundles, gate: RequestGate) -> None:
    """Put the gate before the model, once."""
    if bundles.features.find(GatedRequests) is None:
        bundles.features.add(GatedRequests(gate, bundles.features))
