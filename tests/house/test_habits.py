"""What the code never does, save at the places named here."""

import ast
import sys
from collections.abc import Iterator

from tests.house.source import dotted, imports, modules

# The doors at which a bug is caught: a tool call, a run, a command, a request.
DOORS = (
    "agent/batch.py",
    "engine/run/runner.py",
    "rpc/desk.py",
    "acp/server.py",
    "functions/isolation.py",
    # Telemetry never costs a run.
    "engine/features/telemetry/door.py",
    # Passes every exception on into the coroutine that it continues.
    "agent/scope.py",
)
TASK_MAKER = "agent/scope.py"
# Third parties: each is imported by one room's files only, and only msgspec at import time.
EAGER = ("msgspec",)
# Files about a library that a start does not need, which import it. They are imported in functions
# only.
ABOUT = {
    "ludolf.ai.http.connection": "httptools",
    "ludolf.ai.http.dialing": "httptools",
    "ludolf.ai.http.exchange": "httptools",
    "ludolf.ai.http.response": "httptools",
    "ludolf.engine.features.telemetry.batch": "opentelemetry",
    "ludolf.engine.features.telemetry.context": "opentelemetry",
    "ludolf.engine.features.telemetry.genai": "opentelemetry",
    "ludolf.engine.features.telemetry.instruments": "opentelemetry",
    "ludolf.engine.features.telemetry.recorder": "opentelemetry",
    "ludolf.engine.features.telemetry.replay": "opentelemetry",
    "ludolf.engine.features.telemetry.sending": "opentelemetry",
    "ludolf.engine.features.telemetry.setup": "opentelemetry",
}
# The client of `ludolf serve`, and the servers of the live view and of sessions.
HTTP = ("base/byte_pipes.py", "page/live/server.py", "serve/web.py")


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _names(node: ast.expr | None) -> Iterator[str]:
    if node is not None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                yield part.id


def _passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the handler only cleans up: it ends by raising what it caught."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_every_module_says_what_it_is_for() -> None:
    wrong = [each.place for each in modules() if not ast.get_docstring(each.tree)]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_printed() -> None:
    wrong = [
        each.at(call)
        for each in modules()
        for call in each.calls()
        if dotted(call.func) in ("print", "builtins.print")
    ]
    assert not wrong, "\n".join(wrong)


def test_every_task_has_an_owner() -> None:
    wrong = []
    for module in modules():
        for call in module.calls():
            by_group = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "group"
            makes_task = _called(call) in ("create_task", "ensure_future")
            if makes_task and not by_group and module.place != TASK_MAKER:
                wrong.append(module.at(call))
    assert not wrong, "\n".join(wrong)


def test_bugs_are_caught_at_the_doors_only() -> None:
    wrong = []
    for module in modules():
        for node in module.nodes():
            if isinstance(node, ast.ExceptHandler) and not _passes_on(node):
                caught = set(_names(node.type)) or {"BaseException"}
            elif isinstance(node, ast.Call) and _called(node) == "suppress":
                caught = {name for argument in node.args for name in _names(argument)}
            else:
                continue
            if caught & {"Exception", "BaseException"} and module.place not in DOORS:
                wrong.append(module.at(node))
    assert not wrong, "\n".join(wrong)


def test_other_peoples_libraries_are_imported_when_they_are_needed() -> None:
    known = frozenset((*sys.stdlib_module_names, *EAGER, "ludolf"))
    wrong = [
        f"{found.where}: {found.name}"
        for found in imports()
        if found.eager
        and found.name.partition(".")[0] not in (*known, ABOUT.get(found.module.name))
        and found.module.room != "adapters"  # only their harness imports them
    ]
    assert not wrong, "\n".join(wrong)


def test_files_about_an_optional_library_are_imported_in_functions() -> None:
    wrong = [
        f"{found.where}: {found.name}"
        for found in imports()
        if found.eager and found.name in ABOUT and found.module.name not in ABOUT
    ]
    assert not wrong, "\n".join(wrong)


def test_one_file_knows_the_library_of_the_conventions() -> None:
    library = "opentelemetry.util.genai"
    users = {found.module.place for found in imports() if found.name.startswith(library)}
    assert users == {"engine/features/telemetry/genai.py"}


def test_only_servers_and_the_client_of_ours_know_their_library() -> None:
    users = {found.module.place for found in imports() if found.name.startswith("aiohttp")}
    assert users == set(HTTP)
    users = {found.module.place for found in imports() if found.name.startswith("httptools")}
    assert users == {"ai/http/response.py"}
