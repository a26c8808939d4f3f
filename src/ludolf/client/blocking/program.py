"""Made from client/program.py by scripts/make_sync_client.py."""

from collections.abc import Sequence
from typing import Literal

from ludolf.client.blocking.asking import BlockingCommandSender
from ludolf.protocol.results import (
    Limits,
    TodoPhase,
)
from ludolf.protocol.wire.answers import (
    Capabilities,
    CommandItem,
    CommandList,
    EventFilter,
    HostToolNames,
    HostUriSchemes,
    Integrations,
    Negotiated,
    Todos,
)
from ludolf.protocol.wire.commands import HostTool, HostToolContent, HostUriScheme, PhaseInput


class BlockingProgramCommands(BlockingCommandSender):
    """Commands about the program and the host. Each method sends the command of its name."""

    def get_capabilities(self) -> Capabilities:
        """Its version, its commands, its events."""
        found: Capabilities = self._call("get_capabilities")
        return found

    def get_commands(self) -> tuple[CommandItem, ...]:
        """Return the commands that a prompt may call with `/`."""
        found: CommandList = self._call("get_commands")
        return found.commands

    def get_available_commands(self) -> tuple[CommandItem, ...]:
        """The same with those of the program itself."""
        found: CommandList = self._call("get_available_commands")
        return found.commands

    def get_integrations(self) -> Integrations:
        """Whether the model can be asked, as far as is known."""
        found: Integrations = self._call("get_integrations")
        return found

    def set_limits(
        self,
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
    ) -> Limits:
        """Set the limits of each prompt; a missing limit does not apply."""
        limits: Limits = self._call(
            "set_limits", max_turns=max_turns, max_tokens=max_tokens, max_cost=max_cost
        )
        return limits

    def reload(self) -> None:
        """Read settings, models, skills, templates, context files and extensions again."""
        self._call("reload")

    def set_project_trust(self, trusted: bool, *, remember: bool = True) -> None:
        """Trust or distrust the code and settings of the project."""
        self._call("set_project_trust", trusted=trusted, remember=remember)

    def set_todos(self, phases: Sequence[PhaseInput]) -> tuple[TodoPhase, ...]:
        """Replace the plan of the session; returns it made whole."""
        todos: Todos = self._call("set_todos", phases=phases)
        return todos.todo_phases

    def set_event_filter(self, events: Sequence[str] | None = None) -> tuple[str, ...] | None:
        """Send only events of these types; None is all. Returns the new filter."""
        chosen: EventFilter = self._call("set_event_filter", events=events)
        return chosen.events

    def set_prompt_results(self, enabled: bool) -> None:
        """Whether each accepted prompt ends with a `prompt_result`."""
        self._call("set_prompt_results", enabled=enabled)

    def negotiate_protocol(self, protocol_version: Literal[1, 2]) -> int:
        """Keep lines short: by cutting texts (1), or by chunks (2) that the client joins."""
        agreed: Negotiated = self._call("negotiate_protocol", protocol_version=protocol_version)
        return agreed.protocol_version

    def set_locale(self, locale: str) -> None:
        """Accepted for hosts of other programs; has no effect."""
        self._call("set_locale", locale=locale)

    # ------------------------------------------------------------ tools and documents of the host

    def set_host_tools(self, tools: Sequence[HostTool]) -> tuple[str, ...]:
        """Register these tools of the host, in place of earlier ones; calls come as `HostToolCall`.

        The option `tools` of the client is easier: it takes functions.
        """
        named: HostToolNames = self._call("set_host_tools", tools=tools)
        return named.tool_names

    def host_tool_update(self, id: str, partial_result: HostToolContent) -> None:
        """The result of a call so far."""
        self._call("host_tool_update", id=id, partial_result=partial_result)

    def host_tool_result(self, id: str, result: HostToolContent, *, is_error: bool = False) -> None:
        """The result of a call; with `is_error` its texts are the error."""
        self._call("host_tool_result", id=id, result=result, is_error=is_error)

    def set_host_uri_schemes(self, schemes: Sequence[HostUriScheme]) -> tuple[str, ...]:
        """Register the URI schemes of the host's documents; requests come as `HostUriRequest`."""
        named: HostUriSchemes = self._call("set_host_uri_schemes", schemes=schemes)
        return named.schemes

    def host_uri_result(
        self,
        id: str,
        content: str | None = None,
        *,
        content_type: str | None = None,
        notes: Sequence[str] | None = None,
        immutable: bool | None = None,
        error: str | None = None,
    ) -> None:
        """Answer a request for a document: its content, or the error; nothing after a write."""
        self._call(
            "host_uri_result",
            id=id,
            content=content,
            content_type=content_type,
            notes=notes,
            immutable=immutable,
            is_error=error is not None,
            error=error,
        )

    def extension_ui_response(
        self,
        id: str,
        *,
        value: str | None = None,
        confirmed: bool | None = None,
        cancelled: bool = False,
    ) -> None:
        """The user's answer to a dialog, under the id of its request."""
        self._call(
            "extension_ui_response",
            id=id,
            value=value,
            confirmed=confirmed,
            cancelled=cancelled,
        )
