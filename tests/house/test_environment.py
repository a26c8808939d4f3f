"""Only the outermost rooms read the environment of the process; engines get theirs as a value."""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import Module, dotted, modules

# They start engines, and pass an environment to each.
OUTERMOST = frozenset(("acp", "cli", "client", "fleet", "rpc", "sdk", "serve"))
# Code that concerns the whole process, not a session.
WHOLE_PROCESS = {
    "ai/http/tls.py": "the variables that OpenSSL itself reads",
    "ai/providers/cloud_tokens.py": "whether libraries that read os.environ see the session's own",
    "config/packages/global_npm.py": "where npm installs packages for the whole machine",
    "config/resources/entry_points.py": "the import path of the interpreter",
    "config/settings/options.py": "the default of a session for programs that pass no environment",
    "engine/process_environment.py": "what the kernel shows of this process",
    "ext/examples/custom_provider.py": "an example of user code",
    "ext/examples/protected_paths.py": "an example of user code",
    "ext/examples/sandboxed_bash.py": "an example of user code",
    "protocol/acp/tool_view.py": "ACP sessions always have the environment of the process",
}
READS = frozenset(
    (
        *("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.get_exec_path"),
        *("os.path.expanduser", "os.path.expandvars", "Path.home"),
        *("urllib.request.getproxies", "getproxies", "getproxies_environment"),
    )
)
# They search PATH of the process, and pass its environment on, unless they get another.
NAMED_ARGUMENTS = {
    "which": "path",
    "shutil.which": "path",
    "subprocess.run": "env",
    "subprocess.Popen": "env",
    "asyncio.create_subprocess_exec": "env",
}


def test_no_engine_reads_the_environment_of_the_process() -> None:
    found = [
        place
        for module in modules()
        if module.room not in OUTERMOST and module.place not in WHOLE_PROCESS
        for place in reads(module)
    ]
    assert found == []


def test_each_exception_still_reads_it() -> None:
    """A list that names more than there is hides the next one."""
    readers = {module.place for module in modules() if any(reads(module))}
    assert set(WHOLE_PROCESS) - readers == set()


@pytest.mark.parametrize(
    "source",
    [
        'os.environ["HOME"]',
        "def run(environ: Mapping[str, str] = os.environ) -> None: ...",
        'os.getenv("HOME")',
        "from os import environ",
        "Path.home()",
        'Path("~").expanduser()',
        'os.path.expanduser("~")',
        'shutil.which("rg")',
        'subprocess.run(["rg"], check=True)',
    ],
)
def test_a_read_is_noticed(source: str) -> None:
    module = Module(name="ludolf.engine.a", place="engine/a.py", lines=1, tree=ast.parse(source))
    assert list(reads(module)) == ["engine/a.py:1"]


def reads(module: Module) -> Iterator[str]:
    for node in module.nodes():
        match node:
            case ast.Attribute():
                is_read = dotted(node) in READS
            case ast.ImportFrom():
                is_read = any(f"{node.module}.{alias.name}" in READS for alias in node.names)
            case ast.Call():
                is_read = _is_implicit(node)
            case _:
                continue
        if is_read:
            yield module.at(node)


def _is_implicit(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "expanduser":
        return dotted(call.func) not in READS
    needed = NAMED_ARGUMENTS.get(dotted(call.func))
    return needed is not None and needed not in {word.arg for word in call.keywords}
