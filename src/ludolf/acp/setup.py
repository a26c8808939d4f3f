"""The answer to `initialize`; needs neither an engine nor the network."""

import sys

from ludolf.protocol.acp.structs import (
    AuthMethod,
    ClientCapabilities,
    InitializeParams,
    InitializeResult,
    initialize_result,
    read_client_capabilities,
)

_LOGIN = ("-m", "ludolf", "--mode", "acp", "--login")


def terminal_login() -> AuthMethod:
    """Return the login at a terminal; `_meta` is for clients from before it was in the protocol."""
    command = {"command": sys.executable, "args": _LOGIN, "label": "ludolf auth login"}
    return AuthMethod(
        id="terminal",
        name="Log in at a terminal",
        description="Store an API key, or log in to a model provider.",
        type="terminal",
        args=("--login",),
        meta={"terminal-auth": command},
    )


def initialized(
    params: InitializeParams, version: str
) -> tuple[ClientCapabilities, InitializeResult]:
    """Return what the client offers, and the answer to its first request."""
    client = read_client_capabilities(params.client_capabilities)
    methods = [terminal_login()] if client.terminal_login else []
    if client.urls:
        from ludolf.acp.login import login_choices

        methods += login_choices()
    return client, initialize_result(version, methods)
