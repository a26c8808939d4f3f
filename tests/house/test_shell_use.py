"""No command line is put together from pieces: a shell gets a whole text of somebody's, or none."""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import Module, dotted, modules

# A text that the user or the model wrote as a command, run as it is.
SHELLS = {
    "config/settings/value_syntax.py": "a key's command in the user's own settings",
    "sdk/command_workplace.py": "fixed scripts that read, write and run in a workplace",
    "tools/process.py": "the commands of host and model",
    "tools/remote/place.py": "fixed scripts of the tools in a workplace",
}
NEVER = {
    "os.system",
    "os.popen",
    "os.spawnlp",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "pty.spawn",
    "eval",
    "exec",
}
# Words behind which a program reads a script.
SCRIPT_FLAGS = ("-c", "-lc", "-ic", "-e", "--eval")


def test_nobody_asks_for_a_shell_by_the_back_door() -> None:
    found = [
        module.at(call)
        for module in modules()
        for call in module.calls()
        if dotted(call.func) in NEVER or _asks_for_shell(call, module)
    ]
    assert found == []


def test_no_script_is_put_together_from_pieces() -> None:
    assert [place for module in modules() for place in _made_scripts(module)] == []


def test_those_who_may_use_a_shell_still_do() -> None:
    """A list that names more than there is hides the next one."""
    used = {module.place for module in modules() if any(_shell_uses(module))}
    assert used == set(SHELLS)


@pytest.mark.parametrize(
    "source",
    [
        'subprocess.run(["sh", "-c", f"ls {name}"])',
        'Popen(("bash", "-c", "ls " + name))',
        'run(["sh", "-c", "ls %s" % name])',
        'run(["sh", "-c", "ls {}".format(name)])',
        'run(["sh", "-c", " ".join(words)])',
        'run("ls " + name, shell=True)',
        'run(f"ls {name}", shell=maybe)',
    ],
)
def test_what_is_put_together_is_noticed(source: str) -> None:
    module = Module("ludolf.x", "config/settings/value_syntax.py", 1, ast.parse(source))
    made = list(_made_scripts(module))
    assert made or any(_asks_for_shell(call, module) for call in module.calls())


def _asks_for_shell(call: ast.Call, module: Module) -> bool:
    for keyword in call.keywords:
        if keyword.arg != "shell" or _is_false(keyword.value):
            continue
        if not dotted(call.func).endswith(("Popen", "run", "call", "check_output")):
            continue
        plain = call.args and isinstance(call.args[0], ast.Name)
        if module.place not in SHELLS or not plain:
            return True
    return False


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _made_scripts(module: Module) -> Iterator[str]:
    for before, script in _scripts(module):
        if before in SCRIPT_FLAGS and not isinstance(
            script, ast.Name | ast.Constant | ast.Attribute
        ):
            yield module.at(script)


def _scripts(module: Module) -> Iterator[tuple[str, ast.expr]]:
    """Every pair of neighbours in a list or tuple of words."""
    for node in module.nodes():
        if isinstance(node, ast.List | ast.Tuple):
            for before, after in zip(node.elts, node.elts[1:], strict=False):
                if isinstance(before, ast.Constant) and isinstance(before.value, str):
                    yield before.value, after


def _shell_uses(module: Module) -> Iterator[ast.AST]:
    """Calls with `shell=`, and words for a shell whose script is not a constant of ours."""
    for call in module.calls():
        shell = any(key.arg == "shell" and not _is_false(key.value) for key in call.keywords)
        if shell and "Popen" in dotted(call.func):
            yield call
    if module.place.startswith("ext/examples/"):
        return
    for before, script in _scripts(module):
        if before == "-c" and isinstance(script, ast.Name) and script.id.islower():
            yield script
