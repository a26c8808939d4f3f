"""Methods that send a command: written once for the client of asyncio and the one that blocks."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, get_type_hints, overload

P = ParamSpec("P")
R = TypeVar("R")
Params = dict[str, Any]


class AsyncSender:
    """A client whose commands are awaited."""

    async def _perform(self, method: "SendingMethod[Any, R]", params: Params) -> R:
        """Send the command with these parameters and return the result of its method."""
        raise NotImplementedError


class BlockingSender:
    """A client whose commands wait."""

    def _perform(self, method: "SendingMethod[Any, R]", params: Params) -> R:
        raise NotImplementedError


class SendingMethod(Generic[P, R]):
    """A method that sends the command of its name.

    Its parameters are those of the command; None is left out. Type checkers and `help` see the
    signature without `answer`, as a coroutine function in a client whose commands are awaited.
    """

    def __init__(self, function: Callable[..., R]) -> None:
        functools.update_wrapper(self, function)
        self.name = function.__name__
        self._function = function
        whole = inspect.signature(function)
        shown = [
            parameter
            for each in whole.parameters.values()
            if each.name != "answer"
            for parameter in _spread(each)
        ]
        self.__signature__ = whole.replace(parameters=shown)

    @overload
    def __get__(self, client: None, owner: type[Any]) -> "SendingMethod[P, R]": ...
    @overload
    def __get__(
        self, client: AsyncSender, owner: type[Any]
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, client: BlockingSender, owner: type[Any]) -> Callable[P, R]: ...
    def __get__(self, client: Any, owner: type[Any]) -> Any:
        return self if client is None else MethodType(self, client)

    def __call__(self, client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        given = self.__signature__.bind(client, *args, **kwargs)
        given.apply_defaults()
        del given.arguments["self"]
        return client._perform(self, given.arguments)

    def result(self, answer: Any, params: Params) -> R:
        """Return what the method returns for an answer."""
        return self._function(None, answer, **params)


def _spread(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the single parameters that `**name: Unpack[Fields]` stands for."""
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
        return [parameter]
    (fields,) = get_args(parameter.annotation)
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in get_type_hints(fields).items()
    ]


class command(SendingMethod[P, R]):
    """The function gets the answer of the program as `answer` and returns the result."""

    def __init__(self, function: Callable[Concatenate[Any, Any, P], R]) -> None:
        super().__init__(function)


class notice(SendingMethod[P, None]):
    """The program does not answer this command; the function only describes it."""

    def __init__(self, function: Callable[Concatenate[Any, P], None]) -> None:
        super().__init__(function)

    def result(self, answer: Any, params: Params) -> None:
        return None
