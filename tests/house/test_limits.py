"""Files, functions and classes stay small enough to be read at once."""

import ast
import statistics
from collections.abc import Sequence

from tests.house.source import Function, modules

FILE_LINES = 800
FUNCTION_LINES = 40
PARAMETERS = 6
PUBLIC_METHODS = 20
MANY_METHODS = {
    "Engine": "the only door for modes, SDK and extensions",
    "Feature": "one method for each hook",
    "Features": "one method for each hook",
    "ExtensionBridge": "one method for each hook",
}
# Nine in ten are shorter than this: the limits above are for exceptions.
USUAL_FILE_LINES = 400
USUAL_FUNCTION_LINES = 25


def _lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _ninth_tenth(numbers: Sequence[int]) -> float:
    return statistics.quantiles(numbers, n=10)[-1]


def test_no_file_is_longer_than_the_limit() -> None:
    long = [f"{each.place}: {each.lines}" for each in modules() if each.lines > FILE_LINES]
    assert not long, "\n".join(long)


def test_no_function_is_longer_than_the_limit() -> None:
    long = [
        f"{module.at(each)} {each.name}: {_lines(each)}"
        for module in modules()
        for each in module.functions()
        if _lines(each) > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_nine_in_ten_files_and_functions_are_short() -> None:
    functions = [_lines(each) for module in modules() for each in module.functions()]
    assert _ninth_tenth([module.lines for module in modules()]) <= USUAL_FILE_LINES
    assert _ninth_tenth(functions) <= USUAL_FUNCTION_LINES


def test_no_function_has_more_parameters_than_the_limit() -> None:
    many = []
    for module in modules():
        for each in module.functions():
            given = (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs)
            count = sum(parameter.arg not in ("self", "cls") for parameter in given)
            if count > PARAMETERS:
                many.append(f"{module.at(each)} {each.name}: {count}")
    assert not many, "\n".join(many)


def _public_methods(node: ast.ClassDef) -> list[str]:
    return [
        each.name
        for each in node.body
        if isinstance(each, Function)
        and not each.name.startswith("_")
        and "property" not in map(ast.unparse, each.decorator_list)
    ]


def test_no_class_has_more_public_methods_than_the_limit() -> None:
    many = [
        f"{module.at(node)} {node.name}: {len(_public_methods(node))}"
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.ClassDef)
        and node.name not in MANY_METHODS
        and len(_public_methods(node)) > PUBLIC_METHODS
    ]
    assert not many, "\n".join(many)
