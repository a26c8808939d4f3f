"""Extensions that look at the traffic with model providers."""

from collections.abc import Mapping

from ludolf.base import dumps, loads
from ludolf.engine.parts import Parts


class ProviderWatch:
    """Set on the transport only while an extension wants it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def sending(self, body: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        from ludolf.extensions.payloads import BeforeProviderHeaders, BeforeProviderRequest

        extending, current = self._parts.extending, self._parts.extending.current
        if current is not None and extending.wants("before_provider_request"):
            before = BeforeProviderRequest(payload=loads(body))
            body = dumps((await current.runner.transform(before)).payload)
        if current is not None and extending.wants("before_provider_headers"):
            changed = await current.runner.transform(BeforeProviderHeaders(headers=headers))
            headers = {name: text for name, text in changed.headers.items() if text is not None}
        return body, headers

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        from ludolf.extensions.payloads import AfterProviderResponse

        current = self._parts.extending.current
        if current is not None and current.runner.wants("after_provider_response"):
            payload = AfterProviderResponse(status=status, headers=dict(headers))
            await current.runner.emit(payload)
