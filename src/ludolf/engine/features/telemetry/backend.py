"""Set up OpenTelemetry for a session in a thread, after its first reply; end it in time."""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ludolf.config.settings.home import has_global_provider
from ludolf.engine.bundles import Bundles
from ludolf.engine.features.telemetry.content import ContentRules, content_rules
from ludolf.engine.features.telemetry.daemon import post_to_loop, run_in_daemon
from ludolf.engine.features.telemetry.door import TelemetryDoor

if TYPE_CHECKING:
    from ludolf.engine.features.telemetry.providers import TelemetryProviders
    from ludolf.engine.features.telemetry.recorder import TelemetryOutput
    from ludolf.engine.features.telemetry.setup import Pipeline

# How long the first prompt waits for the set-up. Later spans are made from stored times.
SETUP_SECONDS = 2.0
EXTRA = "pip install 'ludolf[otel]'"
_MISSING = "Warning: Telemetry is off: a package is missing ({error}). Install it: {command}"
_ONE_PROMPT = ("print", "json")


class TelemetryBackend:
    """The connection of one session and its subagents to OpenTelemetry.

    `output` is None until the set-up is done, and stays None if there is nothing to report to.
    """

    def __init__(self, bundles: Bundles) -> None:
        self._bundles = bundles
        self.door = TelemetryDoor(self._warn)
        self.output: TelemetryOutput | None = None
        self.is_off = False
        self._pipeline: Pipeline | None = None
        self._begun = False
        self._is_closed = False
        self._done = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, on_ready: Callable[[], None]) -> None:
        """Start the set-up, once; `on_ready` is called in the loop when it is done."""
        if self._begun:
            return
        self._begun = True
        self._loop = asyncio.get_running_loop()
        content, mode = self._content(), self._bundles.workspace.mode
        work = threading.Thread(target=self._set_up, args=(content, mode, on_ready), daemon=True)
        work.start()

    async def ready(self, seconds: float = SETUP_SECONDS) -> None:
        """Wait for the set-up, at most this long."""
        if self._done.is_set():
            return
        try:
            await asyncio.wait_for(self._done.wait(), seconds)
        except TimeoutError:
            self._done.set()  # the next prompt does not wait again

    async def close(self) -> None:
        """Export what is left, for at most two seconds."""
        self._is_closed = True
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None:
            return
        from ludolf.engine.features.telemetry.setup import release

        await run_in_daemon(lambda: release(pipeline, self._warn))

    # ------------------------------------------------------------ in the thread

    def _set_up(self, content: ContentRules, mode: str, on_ready: Callable[[], None]) -> None:
        self.door.call(self._connect, content, mode)
        assert self._loop is not None
        post_to_loop(self._loop, self._finish, on_ready)

    def _connect(self, content: ContentRules, mode: str) -> None:
        try:
            from ludolf.engine.features.telemetry.recorder import TelemetryOutput
        except ImportError as error:
            if self._is_asked_for():
                self._warn(_MISSING.format(error=error, command=EXTRA))
            return
        providers = self._providers(mode)
        if providers is not None:
            self.output = TelemetryOutput(providers, content)

    def _providers(self, mode: str) -> "TelemetryProviders | None":
        chosen = self._bundles.workspace.options.telemetry
        if chosen is not None and not isinstance(chosen, bool):
            return _providers_of(chosen)
        if mode == "sdk" and has_global_provider():
            return _providers_of(None)
        from ludolf.engine.features.telemetry.setup import NO_ENDPOINT, acquire, keep, make_plan

        workspace = self._bundles.workspace
        options, environ = workspace.settings.telemetry, workspace.environ
        at_end = mode in _ONE_PROMPT
        plan = make_plan(environ, options.endpoint, options.headers, metrics_at_end=at_end)
        if plan.is_empty:
            self._warn(f"Warning: {NO_ENDPOINT}")
            return None
        self._pipeline = acquire(plan, environ, self._warn)
        if mode == "batch":
            keep(self._pipeline)  # items come and go in a worker
        return self._pipeline.providers

    def _is_asked_for(self) -> bool:
        workspace = self._bundles.workspace
        return bool(workspace.options.telemetry or workspace.settings.telemetry.enabled)

    # ------------------------------------------------------------ in the loop

    def _finish(self, on_ready: Callable[[], None]) -> None:
        self.is_off = self.output is None
        self._done.set()
        if not self._is_closed:
            on_ready()
        elif self._pipeline is not None:  # the session has ended during the set-up
            from ludolf.engine.features.telemetry.setup import release

            threading.Thread(target=release, args=(self._pipeline, self._warn), daemon=True).start()

    def _content(self) -> ContentRules:
        workspace = self._bundles.workspace
        options = workspace.settings.telemetry
        rules = content_rules(workspace.environ, options, lambda value: value)
        return self._masked(rules) if rules.any else rules

    def _masked(self, rules: ContentRules) -> ContentRules:
        from msgspec import structs

        from ludolf.ai.record.scrubbing import Scrubber
        from ludolf.engine.features.secrets import credentials, secrets_of_environment

        workspace, registry = self._bundles.workspace, self._bundles.models.registry
        known = (value for _, value in credentials(workspace.options.api_key, registry))
        headers = workspace.settings.telemetry.headers.values()
        secrets = (*known, *headers, *secrets_of_environment(workspace.environ))
        scrubber = Scrubber(secrets, "[redacted]")
        return structs.replace(rules, scrub=scrubber.value)

    def _warn(self, text: str) -> None:
        """Warn from any thread."""
        if self._loop is None:
            self._bundles.workspace.warn(text)
        else:
            post_to_loop(self._loop, self._report, text)

    def _report(self, text: str) -> None:
        self._bundles.conversation.hub.report(text)


def _providers_of(tracer: Any) -> "TelemetryProviders":
    """Return the given tracer provider, or the program's, and its other global providers."""
    from opentelemetry._logs import get_logger_provider
    from opentelemetry.metrics import get_meter_provider
    from opentelemetry.trace import get_tracer_provider

    from ludolf.engine.features.telemetry.providers import TelemetryProviders

    return TelemetryProviders(
        tracer or get_tracer_provider(), get_meter_provider(), get_logger_provider()
    )
