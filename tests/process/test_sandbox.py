"""The sandbox in the whole program: its tools, the host's own commands, and what it refuses."""

import asyncio
import os
import select
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.tools.sandbox.guard import NoSandbox
from ludolf.tools.sandbox.policy import Ground
from ludolf.tools.sandbox.sandbox import Sandbox, Using
from tests.process.extending import lay, told
from tests.process.harness import Bell, Lab, only, survivors, text_of
from tests.process.model_server import ModelServer, TwoScripts
from tests.process.script import answer, bash, call

pytestmark = pytest.mark.exec

SECRET = "sk-stored-5f1b0c77aa2e4d"
KEY = "sk-variable-0b6a2c44f19e"
WORKSPACE = ("--sandbox", "workspace", "--sandbox-network", "off")


class Box(Lab):
    """A lab that is not below /tmp, which is another folder to commands."""

    def __init__(self, root: Path, server: ModelServer, using: Using = "auto") -> None:
        super().__init__(root, server)
        self.outside = root / "outside"
        self.outside.mkdir()
        (self.outside / "open.txt").write_text("open")
        self.settings(sandbox={"using": using})
        (self.agent / "auth.json").write_bytes(
            dumps({"claude": {"type": "api_key", "key": SECRET}})
        )
        _skip_without(self, using)

    async def results(self, *words: str, **env: str) -> list[tuple[str, bool]]:
        """Prompt once; what the tools gave."""
        async with self.client(*words, **env) as client:
            await client.prompt_and_collect("Go", timeout=20)
        return _results(self)


def _skip_without(box: Box, using: Using) -> None:
    home = box.root / "home"
    ground = Ground(environ=os.environ, mode="workspace", network=False, home=home, agent=box.agent)
    try:
        Sandbox(ground, box.work, using).close()
    except NoSandbox as error:
        pytest.skip(str(error))


def _results(lab: Lab) -> list[tuple[str, bool]]:
    ends = only(told(lab), "tool_execution_end")
    return [(text_of(end["result"]), end["isError"]) for end in ends]


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ludolf-test-") as folder:
        yield Path(folder)


@pytest.fixture(params=["bwrap", "landlock"])
def box(root: Path, request: pytest.FixtureRequest) -> Iterator[Box]:
    with ModelServer() as server:
        yield Box(root, server, request.param)


# ---------------------------------------------------------------- programs that run outside

PLANTED = ("sh", "bash", "grep", "rg", "python", "python3", "bwrap", "basename", "kill")
EXEC = """
def extension(api):
    async def after(event, ctx):
        await api.exec("basename", ["x"])
    api.on("turn_end", after)
"""


async def test_no_program_that_a_command_wrote_runs_outside(box: Box) -> None:
    lay(box, EXEC)
    ran = box.outside / "ran"
    bin_folder = box.work / ".venv/bin"
    # A module in the folder that PYTHONPATH names would be imported by the program itself.
    script = f"printf '#!/bin/sh\\n: > {ran}-%s\\n' $name > $name"
    plant = f"for name in {' '.join(PLANTED)}; do {script}; done"
    module = f"open({str(ran) + '-module'!r}, 'w')"
    box.server.add(
        answer(bash(f"mkdir -p .venv/bin; cd .venv/bin; {plant}; chmod 755 *", "c1")),
        answer(bash(f'echo "{module}" | tee difflib.py PIL.py > yaml.py; sleep 60 &', "c2")),
        answer(call("write", {"path": "a", "content": "x"}, "c3")),
        answer(call("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}, "c4")),
        answer(call("grep", {"pattern": "y"}, "c5"), bash("exit 3", "c6")),
        answer("Done."),
    )
    env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": str(box.work)}
    results = await box.results(*WORKSPACE, "--tools", "bash,write,edit,grep", **env)
    assert sorted(failed for _, failed in results) == [False] * 5 + [True]
    assert (bin_folder / "grep").exists()
    assert (box.work / "difflib.py").exists()
    assert list(box.outside.glob("ran*")) == []


# ---------------------------------------------------------------- tools


async def test_tools_work_in_the_folder_and_nowhere_else(box: Box) -> None:
    out = box.outside
    box.server.add(
        answer(
            bash("echo in > a.txt && cat a.txt", "c1"),
            bash(f"echo out > {out}/new.txt", "c2"),
            call("write", {"path": "b.txt", "content": "b"}, "c3"),
            call("write", {"path": f"{out}/new.txt", "content": "b"}, "c4"),
            call("read", {"path": f"{out}/open.txt"}, "c5"),
            call("read", {"path": str(box.agent / "auth.json")}, "c6"),
            bash(f"cat {box.agent}/auth.json", "c7"),
        ),
        answer("Done."),
    )
    await box.results(*WORKSPACE)
    ends = {end["toolCallId"]: end for end in only(told(box), "tool_execution_end")}
    failed = {name for name, end in ends.items() if end["isError"]}
    assert failed == {"c2", "c4", "c6", "c7"}
    assert text_of(ends["c1"]["result"]) == "in\n"
    assert text_of(ends["c5"]["result"]) == "open"
    assert SECRET not in str(told(box))
    assert os.listdir(out) == ["open.txt"]
    assert {"a.txt", "b.txt"} <= set(os.listdir(box.work))


async def test_searches_stay_out_of_credentials(box: Box) -> None:
    (box.work / "mine.txt").write_text("needle")
    home = box.root / "home"
    (home / "mine.txt").write_text("needle")
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("needle in a key")
    (box.work / "link").symlink_to(home / ".ssh")
    box.server.add(
        answer(
            call("grep", {"pattern": "needle", "path": "."}, "c1"),
            call("grep", {"pattern": "needle", "path": str(home)}, "c2"),
            call("grep", {"pattern": "needle", "path": "link"}, "c3"),
            call("find", {"pattern": "*.txt", "path": "."}, "c4"),
            call("ls", {"path": str(home / ".ssh")}, "c5"),
        ),
        answer("Done."),
    )
    words = ("--no-session", "--tools", "grep,find,ls")
    await box.results(*WORKSPACE, *words)
    ends = {end["toolCallId"]: end for end in only(told(box), "tool_execution_end")}
    texts = {name: text_of(end["result"]) for name, end in ends.items()}
    notice = "\n\n[Some files or folders could not be searched: not readable, or too deep]"
    assert texts["c1"].removesuffix(notice) == "mine.txt:1: needle"
    assert texts["c2"].removesuffix(notice) == "mine.txt:1: needle"
    assert texts["c4"] == "mine.txt"
    assert "hidden" in texts["c3"]
    assert "hidden" in texts["c5"]
    assert "in a key" not in str(texts)


async def test_read_only_changes_nothing(box: Box) -> None:
    (box.work / "a.txt").write_text("a")
    edits = [{"oldText": "a", "newText": "b"}]
    box.server.add(
        answer(
            bash("cat a.txt", "c1"),
            bash("echo b > a.txt", "c2"),
            call("edit", {"path": "a.txt", "edits": edits}, "c3"),
            call("write", {"path": "new.txt", "content": "b"}, "c4"),
        ),
        answer("Done."),
    )
    await box.results("--sandbox", "read-only", "--sandbox-network", "off")
    ends = {end["toolCallId"]: end["isError"] for end in only(told(box), "tool_execution_end")}
    assert ends == {"c1": False, "c2": True, "c3": True, "c4": True}
    assert [path.name for path in box.work.iterdir()] == ["a.txt"]
    assert (box.work / "a.txt").read_text() == "a"


async def test_temporary_files_are_shared_between_tools_and_gone_at_the_end(box: Box) -> None:
    box.server.add(
        answer(bash('echo one > "$TMPDIR/t.txt"; echo -n "$TMPDIR"')),
        answer(bash('cat "$TMPDIR/t.txt"', "c2")),
    )
    async with box.client(*WORKSPACE) as client:
        box.server.add(answer("Done."))
        await client.prompt_and_collect("Go", timeout=20)
        place = _results(box)[0][0]
        box.server.add(answer(call("read", {"path": f"{place}/t.txt"}, "c3")), answer("Done."))
        await client.prompt_and_collect("Read it")
    assert [text for text, _ in _results(box)[1:]] == ["one\n", "one\n"]
    assert not _is_left(box.root / "tmp", place)


def _is_left(folder: Path, inside: str) -> bool:
    """Inside it may be called /tmp: there other tests have theirs, and nobody looks around."""
    return any(folder.rglob("t.txt")) or Path(inside, "t.txt").exists()


async def test_keys_do_not_reach_commands_by_any_way(box: Box) -> None:
    # Without the complaints about others' processes, of which there may be many.
    look = "env; cat /proc/self/environ /proc/$PPID/environ /proc/[0-9]*/environ 2>/dev/null; true"
    box.server.add(
        answer(bash(look, "c1"), call("read", {"path": "/proc/self/environ"}, "c2")),
        answer("Done."),
    )
    results = await box.results(*WORKSPACE, GROQ_API_KEY=KEY)
    assert "LUDOLF_SANDBOX=workspace" in str(results)
    assert KEY not in str(told(box))


async def test_commands_of_the_host_are_shut_in_too(box: Box) -> None:
    async with box.client(*WORKSPACE) as client:
        inside = await client.ask("bash", timeout=20, command="echo hi > a; cat a")
        outside = await client.ask("bash", command=f"echo hi > {box.outside}/a")
    assert inside["output"] == "hi\n"
    assert outside["exitCode"] == 1
    assert os.listdir(box.outside) == ["open.txt"]


async def test_an_abort_ends_all_that_runs_inside(box: Box) -> None:
    bell = Bell(box.work / "bell")
    mark = f"4{os.getpid()}"
    command = f"sleep {mark} & (setsid sleep {mark} &) ; echo > bell; sleep {mark}"
    box.server.add(answer(bash(command)), answer("Done."))
    async with box.client(*WORKSPACE) as client:
        await client.ask("prompt", message="Go")
        assert bell.rings(20)
        await client.ask("abort")
        await client.collect("agent_settled")
        assert await asyncio.to_thread(survivors, _running(mark)) == []


async def test_an_aborted_command_leaves_nothing_that_leads_git_elsewhere(root: Path) -> None:
    with ModelServer() as server:
        box = Box(root, server, "bwrap")
        (box.work / ".git").mkdir()
        foreign = box.work / ".git" / "commondir"
        bell = Bell(box.work / "bell")
        server.add(answer(bash("echo evil > .git/commondir; echo > bell; sleep 60")))
        async with box.client(*WORKSPACE) as client:
            await client.ask("prompt", message="Go")
            assert bell.rings(20)
            assert foreign.exists()
            await client.ask("abort")
            await client.collect("agent_settled")
            assert not foreign.exists()
    assert any("commondir" in one["message"] for one in only(told(box), "warning"))


async def test_a_killed_program_leaves_nothing_that_leads_git_elsewhere(root: Path) -> None:
    with ModelServer() as server:
        box = Box(root, server, "bwrap")
        (box.work / ".git").mkdir()
        bell = Bell(box.work / "bell")
        server.add(answer(bash("echo evil > .git/commondir; echo > bell; sleep 60")))
        async with box.client(*WORKSPACE) as client:
            await client.ask("prompt", message="Go")
            assert bell.rings(20)
            (sweeper,) = _sweepers(client.process.pid)
            ended = os.pidfd_open(sweeper)
            os.kill(client.process.pid, signal.SIGKILL)
            assert select.select([ended], [], [], 20)[0]
            os.close(ended)
    assert not (box.work / ".git" / "commondir").exists()


def _sweepers(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"sweeper" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _running(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", mark.encode()]:
            found.append(int(path.parent.name))
    return found


async def test_long_output_can_be_looked_up_inside(box: Box) -> None:
    box.server.add(answer(bash("seq 1 9000")), answer("Done."))
    (long,) = await box.results(*WORKSPACE)
    path = long[0].rpartition("Full output: ")[2].rstrip("]")
    box.lines.clear()
    box.server.add(
        answer(bash(f"tail -n 1 {path}", "c1"), call("read", {"path": path, "limit": 1}, "c2")),
        answer("Done."),
    )
    results = await box.results(*WORKSPACE)
    assert sorted(text.split()[0] for text, failed in results if not failed) == ["1", "9000"]


# ---------------------------------------------------------------- who decides


async def test_agents_in_the_background_stand_within_the_same_walls(root: Path) -> None:
    with TwoScripts() as server:
        box = Box(root, server)
        box.settings(task={"enabled": True})
        server.add(
            answer(call("task", {"tasks": [{"name": "Ada", "task": "Write it"}]})),
            answer("Started."),
            answer("So it goes."),
        )
        server.of_agents += (
            answer(bash(f"echo x > {box.outside}/new; echo y > mine")),
            answer(call("yield", {"result": {"data": "tried"}})),
        )
        async with box.client(*WORKSPACE) as client:
            await client.ask("prompt", message="Go")
            while "So it goes." not in str(told(box)):
                await client.collect("agent_settled", timeout=20)
    assert os.listdir(box.outside) == ["open.txt"]
    assert (box.work / "mine").exists()


async def test_a_trusted_project_can_shut_tools_in_and_not_let_them_out(box: Box) -> None:
    (box.work / ".pi").mkdir()
    project = box.work / ".pi" / "settings.json"
    project.write_bytes(dumps({"sandbox": {"mode": "read-only", "network": False}}))
    box.server.add(answer(bash("touch a")), answer("Done."))
    assert (await box.results("--approve"))[0][1]
    loose = {"mode": "off", "network": True, "write": [str(box.outside)], "show": ["~/.ssh"]}
    project.write_bytes(dumps({"sandbox": loose}))
    box.server.add(answer(bash(f"touch {box.outside}/a")), answer("Done."))
    assert (await box.results("--approve", *WORKSPACE))[1][1]
    assert os.listdir(box.outside) == ["open.txt"]


async def test_the_user_can_open_and_hide_more(root: Path) -> None:
    with ModelServer() as server:
        box = Box(root, server)
        (box.outside / "secret").mkdir()
        (box.outside / "secret" / "a").write_text("hush")
        (box.root / "home" / ".npmrc").write_text("registry")
        more = {
            "write": [str(box.outside)],
            "hide": [str(box.outside / "secret")],
            "show": ["~/.npmrc"],
        }
        box.settings(sandbox={"mode": "workspace", "using": "bwrap", **more})
        _skip_without(box, "bwrap")
        server.add(
            answer(
                bash(f"echo x > {box.outside}/new; cat ~/.npmrc", "c1"),
                bash(f"cat {box.outside}/secret/a", "c2"),
                call("write", {"path": f"{box.outside}/other", "content": "x"}, "c3"),
                call("read", {"path": f"{box.outside}/secret/a"}, "c4"),
            ),
            answer("Done."),
        )
        await box.results()
    ends = {end["toolCallId"]: end for end in only(told(box), "tool_execution_end")}
    assert {name for name, end in ends.items() if end["isError"]} == {"c2", "c4"}
    assert text_of(ends["c1"]["result"]) == "registry"
    assert sorted(os.listdir(box.outside)) == ["new", "open.txt", "other", "secret"]


async def test_values_of_a_hidden_file_are_masked_and_in_no_call(root: Path) -> None:
    with ModelServer() as server:
        box = Box(root, server)
        (box.work / ".env").write_text("DEPLOY_TOKEN=Zq7plain01Xv9Lm\n")
        hidden = {"hide": [str(box.work / ".env")]}
        box.settings(sandbox={"mode": "workspace", "using": "bwrap", **hidden})
        _skip_without(box, "bwrap")
        mask = "__LUDOLF_SECRET_DEPLOY_TOKEN__"
        server.add(answer(bash(f"echo {mask}", "c1")), answer("Done."))
        await box.results("--mask-secrets")
    (end,) = only(told(box), "tool_execution_end")
    assert text_of(end["result"]).startswith(f"{mask} stands for a credential")


async def test_under_landlock_a_project_whose_code_changes_loses_its_trust(root: Path) -> None:
    with ModelServer() as server:
        box = Box(root, server, "landlock")
        (box.work / ".pi").mkdir()
        server.add(
            answer(bash("mkdir -p .pi/extensions; echo 'evil()' > .pi/extensions/x.py")),
            answer("Done."),
        )
        await box.results("--approve", *WORKSPACE)
    assert loads((box.agent / "trust.json").read_bytes()) == {str(box.work): False}
    assert any("no longer trusts" in one["message"] for one in only(told(box), "warning"))


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("settings", "words", "complaint"),
    [
        ({}, ("--sandbox", "workspaces"), "off, workspace, read-only"),
        ({}, ("--sandbox", "workspace", "--sandbox-network", "no"), "on, off"),
        ({}, ("--sandbox-network", "off"), "Only a sandbox can switch the network off"),
        ({"mode": "workspace", "netwrok": False}, (), "sandbox"),
        ({"mode": "readonly"}, (), "sandbox"),
        ("workspace", (), "sandbox"),
    ],
)
def test_a_mistake_ends_the_start(
    lab: Lab, settings: Any, words: tuple[str, ...], complaint: str
) -> None:
    lab.settings(sandbox=settings)
    done = lab.run("-p", *words, "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert complaint in done.stderr


def test_a_folder_that_holds_the_home_is_refused(lab: Lab) -> None:
    done = lab.run("-p", "--sandbox", "workspace", "Go", HOME=str(lab.work))
    assert done.code == 1
    assert "Start in a separate folder" in done.stderr
    assert lab.server.requests == []


async def test_instructions_that_link_to_a_hidden_place_do_not_reach_the_model(box: Box) -> None:
    """Also within the working folder, and by the name of a hard link."""
    private = box.work / "private"
    private.mkdir()
    for name in ("notes", "rule"):
        (private / name).write_text(f"---\ncondition: secret\n---\n{SECRET}")
    box.settings(sandbox={"hide": [str(private)]})
    (box.work / "AGENTS.md").symlink_to("private/notes")
    os.link(private / "notes", box.root / "AGENTS.md")
    (box.work / ".clinerules").mkdir()
    (box.work / ".clinerules" / "rule.md").symlink_to("../private/rule")
    box.server.add(answer("My secret."), answer("No."))
    async with box.client(*WORKSPACE) as client:
        await client.prompt_and_collect("Go", timeout=20)
    assert len(box.server.requests) == 1
    assert SECRET not in str(box.server.requests[0].body)
