"""Record the model traffic of a run to a file, without its secrets."""

import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from ludolf.ai.errors import ProviderError, retry_after
from ludolf.ai.http.transport import HttpRequest, Raw, ResponseBody, Transport
from ludolf.ai.json_text import json_value
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model
from ludolf.ai.record.recording_file import (
    VERSION,
    AskedModel,
    Exchange,
    Line,
    RecordedData,
    RecordedEnd,
    RecordedFailure,
    RecordedRequest,
    RecordedResponse,
    RecordingFile,
    RecordingHeader,
)
from ludolf.ai.record.scrubbing import Scrubber, harmless_headers, harmless_url, secrets_of
from ludolf.base import Warn, iso_time


class Recorder(Transport):
    """Transport that records model exchanges.

    `secrets` returns the values to remove, in addition to those that a request carries.
    """

    def __init__(
        self,
        path: Path,
        secrets: Callable[[], Iterable[str]],
        warn: Warn,
        environ: Mapping[str, str],
    ) -> None:
        """Open the file.

        Raises:
            ConfigError: the file is not empty, or cannot be created.
        """
        super().__init__(environ)
        self._file = RecordingFile(path)
        self._secrets = secrets
        self._warn = warn
        self._count = 0
        self._failing = False
        self._models: set[str] = set()

    def begin(self, model: Model | None, level: ThinkingLevel) -> None:
        """Write the header with the initial state of the run."""
        from ludolf import __version__

        model_data = self._clean_model(model) if model is not None else None
        if model is not None:
            self._models.add(model.key)
        self._write(
            RecordingHeader(
                version=VERSION,
                ludolf=__version__,
                started_at=iso_time(),
                model=model_data,
                thinking_level=level,
            )
        )

    def will_ask(self, model: Model) -> None:
        if model.key not in self._models:
            self._models.add(model.key)
            self._write(AskedModel(model=self._clean_model(model)))

    @asynccontextmanager
    async def model_exchange(self, sent: HttpRequest) -> AsyncIterator[Raw]:
        self._count += 1
        tape = Tape(self._count)
        try:
            async with super().model_exchange(sent) as raw:
                tape.answered(raw)
                yield Listening(raw, tape)
        except BaseException as error:
            tape.stopped_by(error)
            raise
        finally:
            scrubber = Scrubber((*self._secrets(), *secrets_of(sent.url, sent.headers)))
            self._write(tape.exchange(sent, scrubber))

    async def close(self) -> None:
        await super().close()
        self._file.close()

    def _clean_model(self, model: Model) -> Model:
        scrubber = Scrubber((*self._secrets(), *secrets_of(model.base_url, {})))
        return model.replace(
            base_url=scrubber.text(harmless_url(model.base_url)),
            sampling_params=scrubber.value(model.sampling_params),
            compat=scrubber.value(model.compat),
        )

    def _write(self, line: Line) -> None:
        try:
            self._file.add(line)
        except OSError as error:
            # A failed recording must not stop the run.
            if not self._failing:
                text = f"{self._file.path} is not complete: {error.strerror}"
                self._warn(f"Warning: the recording {text}")
            self._failing = True


class Tape:
    """Record of one exchange in progress."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._began = time.monotonic()
        self._started_at = iso_time()
        self._head: tuple[int, dict[str, str], int] | None = None
        self._chunks: list[tuple[int, bytes]] = []
        self._complete = False
        self._broke = False
        self._end: RecordedEnd = "left"
        self._error: ProviderError | None = None

    def answered(self, raw: Raw) -> None:
        headers = harmless_headers(raw.headers)
        wait = retry_after(raw.headers)
        if wait is not None and " " in headers.get("retry-after", ""):
            # A date would be in the past at replay.
            headers["retry-after"] = f"{wait:.3f}"
        self._head = (raw.status, headers, self._ms())

    def heard(self, chunk: bytes) -> None:
        if chunk:
            self._chunks.append((self._ms(), chunk))
        else:
            self._complete = True

    def broke(self) -> None:
        """Mark the body as incomplete; the following error contains the reason."""
        self._broke = True

    def stopped_by(self, error: BaseException) -> None:
        if self._complete:
            return
        if not isinstance(error, ProviderError):
            self._end = "aborted"
            return
        self._error = error
        if self._head is None:
            self._end = "no_answer"
        elif self._broke:
            self._end = "cut"

    def exchange(self, sent: HttpRequest, scrubber: Scrubber) -> Exchange:
        """Return the line for the file."""
        error = self._error
        return Exchange(
            number=self._number,
            started_at=self._started_at,
            request=_request(sent, scrubber),
            answer=self._answer(scrubber),
            end="complete" if self._complete else self._end,
            end_ms=self._ms(),
            error=RecordedFailure(text=scrubber.text(str(error)), kind=error.kind)
            if error
            else None,
        )

    def _answer(self, scrubber: Scrubber) -> RecordedResponse | None:
        if self._head is None:
            return None
        status, headers, ms = self._head
        cleaned = scrubber.chunks([chunk for _, chunk in self._chunks])
        times = [at for at, _ in self._chunks]
        return RecordedResponse(
            status=status,
            headers=_scrubbed(headers, scrubber),
            ms=ms,
            chunks=tuple(
                RecordedData.of(chunk, at)
                for at, chunk in zip(times, cleaned, strict=True)
                if chunk
            ),
        )

    def _ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)


class Listening:
    """A response that records its body as it is read."""

    def __init__(self, raw: Raw, tape: Tape) -> None:
        self.status = raw.status
        self.headers: Mapping[str, str] = raw.headers
        self.content: ResponseBody = _ListeningBody(raw.content, tape)
        # Used to set the read timeout of the connection.
        self.connection: object = getattr(raw, "connection", None)


class _ListeningBody:
    def __init__(self, body: ResponseBody, tape: Tape) -> None:
        self._body = body
        self._tape = tape

    async def readany(self) -> bytes:
        with _noticing(self._tape):
            chunk = await self._body.readany()
        self._tape.heard(chunk)
        return chunk

    async def read(self, n: int = -1) -> bytes:
        with _noticing(self._tape):
            chunk = await self._body.read(n)
        if chunk or n:
            self._tape.heard(chunk)
        return chunk

    def at_eof(self) -> bool:
        ended = self._body.at_eof()
        if ended:
            self._tape.heard(b"")
        return ended


@contextmanager
def _noticing(tape: Tape) -> Iterator[None]:
    """Report a failed read to the tape; a cancelled read is not a failure."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, CancelledError | GeneratorExit):
            tape.broke()
        raise


def _request(sent: HttpRequest, scrubber: Scrubber) -> RecordedRequest:
    body, data = json_value(sent.body), None
    if body is None and sent.body:
        data = RecordedData.of(scrubber.chunks([sent.body])[0])
    return RecordedRequest(
        method=sent.method,
        url=scrubber.text(harmless_url(sent.url)),
        headers=_scrubbed(harmless_headers(sent.headers), scrubber),
        body=scrubber.value(body),
        data=data,
    )


def _scrubbed(headers: Mapping[str, str], scrubber: Scrubber) -> dict[str, str]:
    return {name: scrubber.text(value) for name, value in headers.items()}
