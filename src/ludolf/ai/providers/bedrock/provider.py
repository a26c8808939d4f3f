"""Provider for Amazon Bedrock (`bedrock-converse-stream`)."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import retry_after
from ludolf.ai.http.transport import HttpResponse, Transport, check
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.bedrock.events import FrameParser
from ludolf.ai.providers.bedrock.identity import Identity, address, variables_of
from ludolf.ai.providers.bedrock.request import BedrockRequestBuilder
from ludolf.ai.providers.bedrock.stream import BedrockFailure, BedrockReader, failure
from ludolf.ai.providers.gateways import user_agent
from ludolf.ai.providers.openai.shared import cut
from ludolf.base import loads

API = "bedrock-converse-stream"


def make(transport: Transport) -> Provider:
    return Bedrock(transport)


class Bedrock:
    """Provider for `model/<id>/converse-stream` with the AWS binary event stream."""

    api = API
    abort_text = "Request was aborted"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._identity = Identity()
        self._bodies = BedrockRequestBuilder()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        body = self._bodies.build(request, variables_of(request))
        proof = await self._identity.prove(request)
        async with self._transport.post(
            address(request, proof.region),
            _headers(request),
            body,
            patience=request.patience,
            seal=proof.seal,
        ) as reply:
            await self._check(reply)
            yield ()
            reading = BedrockReader(draft, reply.headers.get("x-amzn-requestid"))
            async for frames in reply.read(FrameParser()):
                yield reading.take(frames)
                if reading.ended:
                    await reply.finish()
                    break
        reading.conclude()

    async def _check(self, reply: HttpResponse) -> None:
        if reply.status == 200:
            if "amazon.eventstream" not in reply.headers.get("Content-Type", ""):
                await check(reply, lambda status, body: body)
            return
        refused = _refusal(reply.status, reply.headers, await reply.text())
        if refused.kind == "auth":
            self._identity.forget()
        raise refused


def _headers(request: Request) -> dict[str, str]:
    headers = {
        "content-type": "application/json",
        "accept": "application/vnd.amazon.eventstream",
        "user-agent": user_agent(),
    }
    return {name.lower(): value for name, value in request.access.over(headers).items()}


def _refusal(status: int, headers: Mapping[str, str], body: str) -> BedrockFailure:
    """Convert an HTTP failure. The code is in a header or the body, with a namespace or URL."""
    try:
        value = loads(body)
    except (ValueError, RecursionError):
        value = None
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    code = headers.get("x-amzn-errortype") or fields.get("__type") or fields.get("code")
    message = fields.get("message") or fields.get("Message") or cut(body.strip())
    return failure(
        str(code).partition(":")[0].rpartition("#")[2] if code else None,
        str(message) or "status code (no body)",
        status=status,
        request_id=headers.get("x-amzn-requestid"),
        retry_after=retry_after(headers),
    )


if TYPE_CHECKING:
    _provider: type[Provider] = Bedrock
