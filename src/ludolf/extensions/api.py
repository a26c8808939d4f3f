"""`api`: the object through which an extension registers handlers and acts on the session."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar, Unpack, overload

from ludolf.agent.tool import ExecutionMode
from ludolf.base import CommandError, Value
from ludolf.config.resources.sources import SourceDetails
from ludolf.extensions.actions import Actions
from ludolf.extensions.context import Context
from ludolf.extensions.hooks import find_hook
from ludolf.extensions.host import Host
from ludolf.extensions.models_view import ModelsView
from ludolf.extensions.registry import (
    Extension,
    ExtensionCommand,
    ExtensionShortcut,
    Flag,
    Listener,
    Listeners,
    Registry,
)
from ludolf.extensions.runner import HookHandler
from ludolf.extensions.runtime import Runtime
from ludolf.functions.isolation import Failed, call
from ludolf.functions.tool import ToolOptions, is_object_schema, make_tool
from ludolf.session.entries import LabelBody

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Decorator(Protocol):
    """Registers a function and returns it unchanged.

    A method that was called with the function returns the function; type checkers still see a
    decorator.
    """

    def __call__(self, function: F, /) -> F: ...


class Events:
    """Event bus between extensions, with named channels and any value as data.

    Errors of a listener are reported.
    """

    def __init__(self, listeners: Listeners, runtime: Runtime, path: str) -> None:
        self._listeners = listeners
        self._runtime = runtime
        self._path = path

    def emit(self, channel: str, data: Any = None) -> None:
        """Send data to all listeners; they run in the background, in order of registration."""
        self._runtime.do(lambda host: self._publish(channel, data))

    def on(self, channel: str, listener: Listener | None = None) -> Any:
        """Add a listener, by call or as a decorator; the call returns the function to remove it."""
        self._runtime.check_fresh()
        if listener is not None:
            return self._listen(channel, listener)

        def decorate(function: Listener) -> Listener:
            self._listen(channel, function)
            return function

        return decorate

    def _listen(self, channel: str, listener: Listener) -> Callable[[], None]:
        item = (self._path, listener)
        self._listeners[channel] = (*self._listeners.get(channel, ()), item)

        def remove() -> None:
            left = tuple(one for one in self._listeners.get(channel, ()) if one is not item)
            self._listeners[channel] = left

        return remove

    def _publish(self, channel: str, data: Any) -> None:
        for path, listener in self._listeners.get(channel, ()):
            self._runtime.start(self._call(channel, listener, data, path))

    async def _call(self, channel: str, listener: Listener, data: Any, path: str) -> None:
        try:
            await call(listener, data)
        except Failed as error:
            self._runtime.runner.report(path, f"events:{channel}", str(error), error)


class ToolInfo(Value):
    """A built-in tool, or one of an extension or host; `source_info` says where it comes from."""

    name: str
    label: str
    description: str
    parameters: Mapping[str, Any]
    prompt_guidelines: tuple[str, ...] = ()
    source_info: SourceDetails | None = None


class Api(Actions):
    """Registers at any time; acts on the session only after it has started."""

    def __init__(self, extension: Extension, registry: Registry) -> None:
        super().__init__(registry.runtime)
        self._extension = extension
        self._registry = registry
        self._context = Context(registry.runtime, str(extension.path))

    # ------------------------------------------------------------ registration

    @overload
    def on(self, event: str, *, thread: bool = False) -> Decorator: ...
    @overload
    def on(
        self, event: str, handler: Callable[..., Any], *, thread: bool = False
    ) -> Callable[[], None]: ...
    def on(self, event: str, handler: Any = None, *, thread: bool = False) -> Any:
        """Handle an event with `handler(event, ctx)`, sync or async: `@api.on("tool_call")`.

        Called with a handler, it returns the function that unsubscribes it. `thread` runs a plain
        function in a worker thread; otherwise it runs in the event loop and must return quickly.

        Raises:
            ValueError: the event is unknown.
        """
        self._runtime.check_fresh()
        name = find_hook(event).name

        def add(function: Any) -> Callable[[], None]:
            added = HookHandler(
                event=name,
                function=function,
                path=self._extension.path,
                context=self._context,
                place=self._extension.place,
                thread=thread,
            )
            return self._runtime.runner.add(added)

        return add(handler) if handler is not None else _decorate(add)

    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        label: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        execution: ExecutionMode = "parallel",
        **options: Unpack[ToolOptions],
    ) -> Decorator:
        """Register a function as a tool. Its schema comes from type hints or from `parameters`.

        `Annotated[str, "description"]` or `Args:` in the docstring describe parameters. The
        keyword-only parameters `ctx`, `update`, `call_id` and `signal` are passed in;
        `update(partial)` sends progress.
        """

        def add(author: Any) -> None:
            tool = make_tool(
                author,
                self._context,
                names=(name, label, description),
                parameters=parameters,
                execution=execution,
                options=options,
            )
            if not is_object_schema(tool.parameters):
                raise ValueError(
                    f'Tool "{tool.name}" registered by extension "{self._extension.path}" '
                    "must define an object parameter schema."
                )
            self._registry.add_tool(self._extension, tool)

        self._runtime.check_fresh()
        if unknown := set(options) - set(ToolOptions.__annotations__):
            raise TypeError(f"api.tool() has no option {', '.join(sorted(unknown))}")
        return _decorate(add, function)

    def command(
        self,
        name: str,
        handler: Any = None,
        *,
        description: str | None = None,
        completions: Callable[[str], Any] | None = None,
    ) -> Decorator:
        """Handle `/name …` with `handler(args, ctx)`.

        `completions(prefix)`, sync or async, returns texts, or dicts with `value`, `label` and
        `description`, that terminals and other hosts offer while the arguments are typed.
        """

        def add(function: Any) -> None:
            clean = name.removeprefix("/")
            self._extension.commands[clean] = ExtensionCommand(
                name=clean, function=function, description=description, completions=completions
            )

        self._runtime.check_fresh()
        return _decorate(add, handler)

    def flag(
        self,
        name: str,
        *,
        type: type[bool] | type[str] | Literal["boolean", "string"] = bool,
        default: bool | str | None = None,
        description: str | None = None,
    ) -> None:
        """Register the command-line option `--name`.

        Raises:
            ValueError: the type is neither bool nor str, or the default has another type.
        """
        self._runtime.check_fresh()
        kind = {"boolean": bool, "string": str}.get(type, type) if isinstance(type, str) else type
        if kind not in (bool, str):
            raise ValueError(f'Flag "--{name}" must have the type bool or str')
        if default is not None and not isinstance(default, kind):
            raise ValueError(f'Flag "--{name}" has a default that is not a {kind.__name__}')
        clean = name.removeprefix("--")
        flag = Flag(name=clean, type=kind, default=default, description=description)
        self._registry.add_flag(self._extension, flag)

    def get_flag(self, name: str) -> bool | str | None:
        """Return the value on the command line, else the default; None for another's flag."""
        self._runtime.check_fresh()
        return self._registry.flag_value(self._extension, name.removeprefix("--"))

    def shortcut(
        self, key: str, handler: Any = None, *, description: str | None = None
    ) -> Decorator:
        """Call `handler(ctx)` when a key such as `ctrl+shift+x` is pressed at a terminal."""

        def add(function: Any) -> None:
            shortcut = ExtensionShortcut(key=key, function=function, description=description)
            self._extension.shortcuts[key] = shortcut

        self._runtime.check_fresh()
        return _decorate(add, handler)

    def renderer(self, custom_type: str, function: Any = None) -> Decorator:
        """Register a terminal renderer of this type. Accepted for compatibility; no effect."""
        self._runtime.check_fresh()
        return _decorate(_ignore, function)

    def provider(self, name: T, **config: Any) -> T:
        """Register a model provider and return the first argument.

        It is either a name with `base_url`, `api`, `api_key`, `headers`, `models` …, or an object
        (or class) with `id`, `models()` and `async stream(model, context, options)`.
        """
        self._runtime.check_fresh()
        self._registry.add_provider(self._extension, name, config)
        return name

    def unregister_provider(self, name: str) -> None:
        self._runtime.check_fresh()
        self._registry.drop_provider(name)

    def mcp_server(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add an MCP server; `entry` has the form of an entry of `mcp.json`."""
        self._runtime.check_fresh()
        self._registry.add_mcp_server(self._extension, name, entry)

    # ------------------------------------------------------------ actions

    def set_session_name(self, name: str) -> None:
        self._runtime.do(lambda host: host.set_session_name(name))

    def set_label(self, entry_id: str, label: str | None = None) -> None:
        """Set the label of an entry; None removes it."""

        def append(host: Host) -> None:
            if host.session.get(entry_id) is None:
                raise CommandError(f"Entry not found: {entry_id}")
            host.session.append(LabelBody(target_id=entry_id, label=label or None))

        self._runtime.do(append)

    # ------------------------------------------------------------ state

    @property
    def events(self) -> Events:
        """Return the event bus that extensions share."""
        return Events(self._registry.listeners, self._runtime, str(self._extension.path))

    @property
    def models(self) -> ModelsView:
        """Return the models; they can be listed while extensions are loaded."""
        return ModelsView(self._runtime)

    @property
    def session_name(self) -> str | None:
        return self._runtime.host.session.name

    @property
    def all_tools(self) -> tuple[ToolInfo, ...]:
        tools = self._runtime.do(lambda host: tuple(host.tools.values()))
        return tuple(
            ToolInfo(
                name=tool.name,
                label=tool.label,
                description=tool.description,
                parameters=tool.parameters,
                prompt_guidelines=tool.guidelines,
                source_info=self._source_of(tool.name),
            )
            for tool in tools
        )

    def _source_of(self, tool: str) -> SourceDetails:
        """Return the source of a tool as pi names it."""
        for extension in self._registry.extensions:
            if tool in extension.tools:
                return extension.origin.info()
        return SourceDetails(
            path=f"<builtin:{tool}>", source="builtin", scope="temporary", origin="top-level"
        )

    @property
    def commands(self) -> tuple[Any, ...]:
        """Return the items of `get_commands`: extension commands, templates and skills."""
        return self._runtime.host.commands


def _decorate(add: Callable[[Any], Any], function: Any = None) -> Decorator:
    """Register a function that a method was called with, or return the decorator for one."""

    def decorate(function: F) -> F:
        add(function)
        return function

    return decorate if function is None else decorate(function)


def _ignore(function: Any) -> None: ...
