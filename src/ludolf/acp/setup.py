"""The answer to `initialize`; needs neither an engine nor the network."""

from ludolf.protocol.acp.structs import (
    AuthMethod,
    ClientCapabilities,
    InitializeParams,
    InitializeResult,
    initialize_result,
    read_client_capabilities,
)

TERMINAL_LOGIN = AuthMethod(
    id="terminal",
    name="Log in at a terminal",
    description="Store an API key, or log in to a model provider.",
    type="terminal",
    args=("--login",),
)


def initialized(
    params: InitializeParams, version: str
) -> tuple[ClientCapabilities, InitializeResult]:
    """Return what the client offers, and the answer to its first request."""
    client = read_client_capabilities(params.client_capabilities)
    methods = [TERMINAL_LOGIN] if client.terminal_login else []
    if client.urls:
        from ludolf.acp.login import login_choices

        methods += login_choices()
    return client, initialize_result(version, methods)
