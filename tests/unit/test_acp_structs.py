"""Parameters and results of the methods of the Agent Client Protocol."""

from typing import Any

import msgspec
import pytest
from acp import schema
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.base import dumps, loads
from ludolf.protocol.acp.structs import (
    PARAMS,
    AuthMethod,
    AvailableCommand,
    ClientCapabilities,
    CommandHint,
    ConfigBoolean,
    ConfigOptionsResult,
    ConfigSelect,
    ConfigValue,
    ConfigValueGroup,
    ElicitationParams,
    InvalidParams,
    ListedSession,
    ListSessionsResult,
    MethodUnknown,
    NewSessionParams,
    OpenedSessionResult,
    PermissionOption,
    PermissionParams,
    PromptParams,
    ReadFileParams,
    SessionMode,
    SessionModes,
    SetConfigOptionParams,
    TurnResult,
    WriteFileParams,
    decode_params,
    initialize_result,
    read_client_capabilities,
    read_elicitation,
    read_file_content,
    read_permission,
)
from tests.acp_frames import check_model

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_NAMES = st.sampled_from(
    ["fs", "session", "_meta", "elicitation", "form", "outcome", "sessionId", "cwd", "prompt"]
)


def test_capabilities_are_read_where_the_schema_has_them() -> None:
    raw = {
        "fs": {"readTextFile": True, "writeTextFile": False},
        "terminal": True,
        "auth": {"terminal": True},
        "elicitation": {"form": {}, "url": None},
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        "_meta": {"terminal_output": True},
    }
    assert read_client_capabilities(raw) == ClientCapabilities(
        reads_files=True,
        terminal=True,
        terminal_login=True,
        forms=True,
        booleans=True,
        notices=True,
        compaction=True,
        terminal_output=True,
    )


@settings(max_examples=30, deadline=None)
@given(_JSON | st.dictionaries(_NAMES, _JSON | st.dictionaries(_NAMES, _JSON)))
def test_hostile_values_never_raise_anything_but_the_documented_errors(raw: Any) -> None:
    read_client_capabilities(raw)
    read_permission(raw)
    read_elicitation(raw)
    read_file_content(raw)
    for method in PARAMS:
        try:
            decode_params(method, raw)
        except InvalidParams as error:
            assert str(error).startswith(method)


def test_parameters_are_decoded_by_the_name_of_the_method() -> None:
    servers = [
        {"name": "files", "command": "serve", "args": ["-v"], "env": [{"name": "A", "value": "b"}]},
        {"name": "web", "type": "http", "url": "https://x.example/", "headers": []},
    ]
    params = decode_params(
        "session/new", {"cwd": "/w", "mcpServers": servers, "_meta": {"ludolf/trust": True}}
    )
    assert isinstance(params, NewSessionParams)
    assert [(each.name, each.type) for each in params.mcp_servers] == [
        ("files", "stdio"),
        ("web", "http"),
    ]
    assert params.has_flag("ludolf/trust") and not params.has_flag("ludolf/steer")
    value = decode_params(
        "session/set_config_option",
        {"sessionId": "s", "configId": "auto_compaction", "type": "boolean", "value": True},
    )
    assert isinstance(value, SetConfigOptionParams) and value.value is True
    prompt = decode_params("session/prompt", {"sessionId": "s", "prompt": [{"type": "text"}]})
    assert isinstance(prompt, PromptParams) and prompt.prompt == ({"type": "text"},)


@pytest.mark.parametrize(
    ("method", "raw", "named"),
    [
        ("session/prompt", {"prompt": []}, "`sessionId`"),
        ("session/prompt", {"sessionId": "s", "prompt": "text"}, "prompt: Expected `array`"),
        ("session/new", {"cwd": 7}, "cwd: Expected `str`, got `int`"),
        ("session/new", None, "`cwd`"),
        ("session/new", {"cwd": "/", "mcpServers": [{}]}, "mcpServers[0]: Object missing"),
        ("session/cancel", [1], "Expected `object`"),
        ("authenticate", {}, "`methodId`"),
        ("initialize", {}, "`protocolVersion`"),
    ],
)
def test_wrong_parameters_are_refused_by_field_and_type(method: str, raw: Any, named: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        decode_params(method, raw)
    assert str(caught.value).startswith(f"{method}: ") and named in str(caught.value)


def test_an_unknown_method_has_an_error_of_its_own() -> None:
    with pytest.raises(MethodUnknown, match="_x/y"):
        decode_params("_x/y", {})


def test_results_match_the_official_models() -> None:
    select = ConfigSelect(
        id="model",
        name="Model",
        category="model",
        current_value="a/b",
        options=(
            ConfigValueGroup(group="a", name="A", options=(ConfigValue(value="a/b", name="B"),)),
        ),
    )
    plain = ConfigSelect(
        id="mode", name="Mode", current_value="ask", options=(ConfigValue(value="ask", name="Ask"),)
    )
    boolean = ConfigBoolean(id="auto_compaction", name="Compaction", current_value=True)
    options = (plain, select, boolean)
    modes = SessionModes(
        current_mode_id="ask", available_modes=(SessionMode(id="ask", name="Ask"),)
    )
    login = AuthMethod(id="login", name="Log in", type="terminal", args=("--login",))
    agent = AuthMethod(id="anthropic", name="Anthropic", description="Claude")
    listed = ListedSession(session_id="s", cwd="/w", title="t", meta={"messageCount": 3})
    allow = PermissionOption(option_id="allow_once", name="Allow", kind="allow_once")
    call = {"toolCallId": "call_0", "title": "ls", "kind": "execute", "status": "pending"}
    _checked(schema.InitializeResponse, initialize_result("1.0.0", (login, agent)))
    opened = OpenedSessionResult(session_id="s", modes=modes, config_options=options)
    _checked(schema.NewSessionResponse, opened)
    _checked(schema.ForkSessionResponse, opened)
    loaded = OpenedSessionResult(modes=modes, config_options=options)
    _checked(schema.LoadSessionResponse, loaded)
    _checked(schema.ResumeSessionResponse, loaded)
    _checked(schema.ListSessionsResponse, ListSessionsResult(sessions=(listed,), next_cursor="2"))
    _checked(schema.SetSessionConfigOptionResponse, ConfigOptionsResult(config_options=options))
    _checked(schema.PromptResponse, TurnResult(stop_reason="end_turn"))
    command = AvailableCommand(name="name", description="Rename", input=CommandHint(hint="name"))
    _checked(schema.AvailableCommand, command)
    permission = PermissionParams(session_id="s", tool_call=call, options=(allow,))
    _checked(schema.RequestPermissionRequest, permission)
    _checked(schema.ReadTextFileRequest, ReadFileParams(session_id="s", path="/a", line=1, limit=2))
    written = WriteFileParams(session_id="s", path="/a", content="x")
    _checked(schema.WriteTextFileRequest, written)


def test_a_question_is_a_form_or_an_address() -> None:
    form = ElicitationParams(
        mode="form", message="Trust?", session_id="s", requested_schema={"properties": {}}
    )
    address = ElicitationParams(
        mode="url", message="Log in", request_id=3, elicitation_id="e", url="https://x.example/"
    )
    assert msgspec.to_builtins(form) == {
        "mode": "form",
        "message": "Trust?",
        "sessionId": "s",
        "requestedSchema": {"properties": {}},
    }
    assert msgspec.to_builtins(address)["elicitationId"] == "e"


def test_answers_that_are_not_a_clear_yes_are_a_no() -> None:
    chosen = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    assert read_permission(chosen) == "allow_once"
    assert read_permission({"outcome": {"outcome": "cancelled", "optionId": "allow_once"}}) is None
    assert read_elicitation({"action": "later", "content": {"a": 1}}).action == "cancel"
    assert read_elicitation({"action": "accept", "content": {"a": 1}}).content == {"a": 1}
    assert read_file_content({"content": ""}) == ""
    assert read_file_content({"text": "x"}) is None


def _checked(model: Any, value: Any) -> None:
    check_model(model, loads(dumps(value)))
