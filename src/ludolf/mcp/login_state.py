"""The stored login of a server, read field by field: other programs write the file too."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ludolf.base import now_ms

# Keys of pi's form.
CLIENT, TOKENS, EXPIRES, DISCOVERY = "clientInformation", "tokens", "tokensExpireAt", "discovery"
# Ours: scopes that the server asked for after the login, and how often it did so.
WANTED_SCOPE, STEP_UPS = "wantedScope", "stepUps"
# Secrets of a login that pi began.
UNFINISHED = ("codeVerifier", "oauthState")
_HUGE = 1e18


class LoginState(msgspec.Struct, frozen=True):
    """The JSON object of one server; a field of the wrong type counts as missing."""

    raw: Mapping[str, Any]

    @property
    def access(self) -> str:
        return _text(self._part(TOKENS), "access_token")

    @property
    def refresh(self) -> str:
        return _text(self._part(TOKENS), "refresh_token")

    @property
    def scope(self) -> str:
        return _text(self._part(TOKENS), "scope")

    @property
    def client(self) -> Mapping[str, Any]:
        """Return the registered client; empty without one."""
        return self._part(CLIENT)

    @property
    def authorization_server(self) -> Mapping[str, Any]:
        """Return the metadata of the server that issued the tokens."""
        found = self._part(DISCOVERY).get("authorizationServerMetadata")
        return found if isinstance(found, Mapping) else {}

    @property
    def issuer(self) -> str:
        return _text(self.authorization_server, "issuer")

    @property
    def resource(self) -> str:
        found = self._part(DISCOVERY).get("resourceMetadata")
        return _text(found, "resource") if isinstance(found, Mapping) else ""

    @property
    def wanted_scope(self) -> str:
        return _text(self.raw, WANTED_SCOPE)

    @property
    def step_ups(self) -> tuple[str, int]:
        """Return the scopes of the last login for more scopes, and how often they were asked."""
        found = self._part(STEP_UPS)
        return _text(found, "scope"), int(_number(found.get("count")) or 0)

    def ends_within(self, seconds: float) -> bool:
        """Return whether the access token ends in this time, or is past half of a short life."""
        ends = _number(self.raw.get(EXPIRES))
        life = _number(self._part(TOKENS).get("expires_in"))
        early = seconds if life is None else min(seconds, life / 2)
        return ends is not None and ends - early * 1000 <= now_ms()

    def secrets(self) -> tuple[str, ...]:
        """Return what must not appear in a text."""
        return (self.access, self.refresh, _text(self.client, "client_secret"))

    def _part(self, name: str) -> Mapping[str, Any]:
        found = self.raw.get(name)
        return found if isinstance(found, Mapping) else {}


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _HUGE:
        return None
    return float(value)
