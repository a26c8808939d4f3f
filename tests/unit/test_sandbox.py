"""Commands within the sandbox: what bubblewrap and Landlock keep from them."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludolf.agent.tool import ToolFailure
from ludolf.base.programs import find_program
from ludolf.tools.sandbox import launcher
from ludolf.tools.sandbox.bubblewrap import Bubblewrap
from ludolf.tools.sandbox.file_access import Tmp
from ludolf.tools.sandbox.guard import NoSandbox, survey
from ludolf.tools.sandbox.landlock import lacking
from ludolf.tools.sandbox.policy import Ground, Policy
from ludolf.tools.sandbox.sandbox import Sandbox, Using, disproof
from tests.unit.sandbox_place import SECRET, Place, Shell


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ludolf-test-") as root:
        made = Place(Path(root))
        try:
            yield made
        finally:
            made.close()


MEANS = pytest.mark.parametrize("using", ["bwrap", "landlock"])


# ---------------------------------------------------------------- both


@MEANS
def test_a_workspace_can_be_written_and_nothing_else(using: Using, place: Place) -> None:
    shell = Shell(place, place.sandbox(using))
    assert (
        shell.says("echo in > a && mkdir b && mv a b/a && cat b/a && pwd") == f"in\n{place.work}\n"
    )
    out = place.outside
    for command in (
        f"echo x > {out}/new",
        f"echo x > {out}/open.txt",
        f"truncate -s 0 {out}/open.txt",
        f"rm {out}/open.txt",
        f"mv {out}/open.txt .",
        f"ln {out}/open.txt linked",
        f"mkdir {out}/d",
        f"ln -s /etc/passwd {out}/s",
        f"ln -s {out} away && echo x > away/new",
        "echo x > ../outside/new",
        "echo x > ~/.bashrc",
        "echo x > /etc/ludolf-new",
        f"python3 -c \"import os; os.truncate('{out}/open.txt', 0)\"",
    ):
        assert shell.fails(command), command
    assert (out / "open.txt").read_text() == "open"
    assert os.listdir(out) == ["open.txt"]
    assert shell.says(f"cat {out}/open.txt") == "open"


@MEANS
def test_read_only_leaves_temporary_files_only(using: Using, place: Place) -> None:
    shell = Shell(place, place.sandbox(using, "read-only"))
    assert shell.fails("echo x > a")
    assert shell.says('echo t > "$TMPDIR/t"; cat "$TMPDIR/t"') == "t\n"
    assert shell.says('cat "$TMPDIR/t"') == "t\n"  # the next command finds them
    assert os.listdir(place.work) == []
    box = shell.sandbox.tmp.real
    assert (box / "t").read_text() == "t\n"
    shell.sandbox.close()
    assert not box.exists()


@MEANS
def test_credentials_cannot_be_read(using: Using, place: Place) -> None:
    shell = Shell(place, place.sandbox(using))
    (place.work / "link").symlink_to(place.home / ".ssh" / "id")
    for path in (place.agent / "auth.json", place.home / ".ssh" / "id", "link"):
        done = shell.run(f"cat {path}; head -c 99 < {path}; cp {path} copy; cat copy")
        assert SECRET not in done.stdout
        assert done.returncode != 0
    assert SECRET not in shell.run(f"grep -rs . {place.home}; tar c {place.home}").stdout


@MEANS
def test_a_credential_that_comes_later_is_hidden_too(using: Using, place: Place) -> None:
    shell = Shell(place, place.sandbox(using))
    (place.home / ".netrc").write_text(SECRET)
    assert shell.fails(f"cat {place.home}/.netrc > copy && grep . copy")


@MEANS
def test_variables_that_lead_out_are_taken_away(using: Using, place: Place) -> None:
    shell = Shell(place, place.sandbox(using))
    told = shell.says("env", SSH_AUTH_SOCK="/x", DBUS_SESSION_BUS_ADDRESS="unix:path=/y", MINE="1")
    names = {line.partition("=")[0] for line in told.splitlines()}
    assert "MINE" in names
    assert not names & {"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"}
    assert "LUDOLF_SANDBOX=workspace" in told


AGENTS = pytest.mark.parametrize(
    ("variable", "more"), [("SSH_AUTH_SOCK", ""), ("TMUX", ",4711,0")], ids=["ssh", "tmux"]
)


@AGENTS
def test_who_signs_or_types_for_the_user_cannot_be_spoken_to(
    variable: str, more: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.home / "agent.sock"
    speak = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        agent.listen()
        monkeypatch.setenv(variable, f"{path}{more}")
        shell = Shell(place, place.sandbox("bwrap", network=True))
        assert shell.fails(f'python3 -c "{speak}"')
        assert subprocess.run(["python3", "-c", speak], check=False).returncode == 0


@AGENTS
def test_landlock_leaves_no_network_with_who_signs_or_types_for_the_user(
    variable: str, more: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    if launcher.abi() < launcher.LEAST_ABI:
        pytest.skip("this kernel has no Landlock")
    path = place.home / "agent.sock"
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        monkeypatch.setenv(variable, f"{path}{more}")
        reason = lacking(Policy(ground=place.ground(network=True), cwd=place.work))
        assert reason == f"Landlock cannot keep commands from {path}; cut the network, or remove it"
        assert lacking(Policy(ground=place.ground(network=False), cwd=place.work)) is None


@MEANS
def test_processes_outside_cannot_be_looked_into_or_ended(using: Using, place: Place) -> None:
    shell = Shell(place, place.sandbox(using))
    own = subprocess.Popen(["sleep", "60"], env={"KEY": SECRET})
    try:
        done = shell.run(f"cat /proc/{own.pid}/environ; kill -9 {own.pid}; cat /proc/*/environ")
        assert SECRET not in done.stdout
        assert own.poll() is None
    finally:
        own.kill()
        own.wait()


@MEANS
def test_without_network_nothing_outside_is_reached(using: Using, place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        assert Shell(place, place.sandbox(using, network=False)).fails(connect)
        datagram = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            f"s.sendto(b'x', ('127.0.0.1', {port})); s.getpeername"
        )
        shell = Shell(place, place.sandbox(using, network=False))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", port))
            receiver.setblocking(False)
            shell.run(f'python3 -c "{datagram}"')
            with pytest.raises(BlockingIOError):
                receiver.recv(1)
        assert not Shell(place, place.sandbox(using, network=True)).fails(connect)


@MEANS
def test_nobody_gains_rights_inside(using: Using, place: Place) -> None:
    shell = Shell(place, place.sandbox(using))
    assert shell.fails("mount -o remount,rw /")
    assert shell.fails(f"mount --bind {place.outside} {place.work}")
    status = shell.says("cat /proc/self/status")
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status
    assert "CapPrm:\t0000000000000000" in status
    # A namespace of one's own is no way out of the one around it.
    inner = f"mount -o remount,bind,rw {place.outside}; umount -l /; echo x > {place.outside}/n"
    assert shell.fails(f"unshare -Urm bash -c '{inner}'")
    assert os.listdir(place.outside) == ["open.txt"]


@MEANS
def test_no_file_of_the_kernel_can_be_opened_for_writing(using: Using, place: Place) -> None:
    """Only opened: nothing is written to a file that should turn out to be open."""
    shell = Shell(place, place.sandbox(using))
    script = (
        "import os\n"
        "for top in ('/proc', '/sys'):\n"
        "    for folder, names, files in os.walk(top):\n"
        "        if folder == '/proc':\n"
        "            names[:] = [n for n in names if not n.isdigit()]\n"
        "        for name in files:\n"
        "            path = os.path.join(folder, name)\n"
        "            try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))\n"
        "            except OSError: continue\n"
        "            print(path)\n"
    )
    assert shell.says(f'python3 -c "{script}"') == ""


@MEANS
def test_no_terminal_and_no_disk_of_others_is_open(using: Using, place: Place) -> None:
    master, slave = os.openpty()
    shell = Shell(place, place.sandbox(using))
    try:
        name = os.ttyname(slave)
        assert shell.fails(f"exec 3< {name}")
        assert shell.fails(f"exec 3> {name}")
    finally:
        os.close(master)
        os.close(slave)
    disks = "/dev/[svx]d[a-z] /dev/nvme*n*"
    assert shell.fails(f"for disk in {disks}; do (exec 3< $disk) && exit 0; done; exit 1")
    assert shell.says("echo out > /dev/null; echo err > /dev/stderr; head -c 1 /dev/zero | wc -c")


@MEANS
def test_the_exit_code_and_output_are_those_of_the_command(using: Using, place: Place) -> None:
    done = Shell(place, place.sandbox(using)).run("echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


# ---------------------------------------------------------------- bubblewrap


def test_what_runs_code_later_stays_as_it_is(place: Place) -> None:
    subprocess.run(["git", "init", "-q"], cwd=place.work, check=True)
    shell = Shell(place, place.sandbox("bwrap"))
    before = (place.work / ".git" / "config").read_text()
    for command in (
        "echo '[core] fsmonitor = evil' >> .git/config",
        "echo evil > .git/hooks/pre-commit",
        "mv .git .gone",
        "rm -rf .git/hooks",
        "mkdir -p .pi/extensions",
        "rmdir .pi",
        "mv .pi elsewhere",
    ):
        assert shell.fails(command), command
    assert (place.work / ".git" / "config").read_text() == before
    commit = "git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --oneline"
    assert shell.says(commit).endswith("x\n")
    shell.sandbox.close()
    assert os.listdir(place.work) == [".git"]


def test_a_repository_gets_no_hooks_and_no_other_settings_by_a_command(place: Place) -> None:
    git = place.work / ".git"
    subprocess.run(["git", "init", "-q", "--template="], cwd=place.work, check=True)
    assert not (git / "hooks").exists()
    shell = Shell(place, place.sandbox("bwrap"))
    assert shell.fails("mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit")
    shell.run("echo ../evil > .git/commondir")
    assert shell.sandbox.sweep() == (git / "commondir",)
    shell.sandbox.close()
    assert not (git / "hooks").exists()
    assert not (git / "commondir").exists()


def test_bubblewrap_takes_away_what_leads_git_to_other_settings(place: Place) -> None:
    git = place.work / ".git"
    git.mkdir()
    box = place.root / "box"
    box.mkdir()
    policy = Policy(ground=place.ground(), cwd=place.work)
    means = Bubblewrap("bwrap", Tmp(box, box, box), survey(policy))
    argv, _, _ = means.enclose(policy, ("true",), place.work, {})
    assert argv[argv.index(str(git / "hooks")) - 1] == "--ro-bind-try"
    assert means.sweep() == ()
    (git / "commondir").write_text("../evil")
    assert means.sweep() == (git / "commondir",)
    (git / "commondir").write_text("../evil")
    means.close()
    assert os.listdir(git) == []


def test_what_leads_git_elsewhere_from_the_start_is_left_as_it_is(place: Place) -> None:
    git = place.work / ".git"
    git.mkdir()
    (git / "commondir").write_text("../shared")
    policy = Policy(ground=place.ground(), cwd=place.work)
    means = Bubblewrap("bwrap", Tmp(place.root, place.root, place.root), survey(policy))
    argv, _, _ = means.enclose(policy, ("true",), place.work, {})
    assert str(git / "commondir") in argv
    assert means.sweep() == ()
    assert (git / "commondir").read_text() == "../shared"


def test_bubblewrap_gives_commands_a_tmp_of_their_own(place: Place) -> None:
    shell = Shell(place, place.sandbox("bwrap"))
    with tempfile.NamedTemporaryFile(dir="/tmp") as other:
        assert shell.fails(f"test -e {other.name}")
    assert (
        shell.says("echo x > /tmp/x; ls /run/user /run/docker.sock 2>/dev/null; cat /tmp/x")
        == "x\n"
    )
    assert shell.says("ps -e -o pid= | wc -l || true") < "9"


@MEANS
def test_the_folder_for_output_outlives_the_first_of_two_sessions(
    using: Using, place: Place
) -> None:
    first, second = place.sandbox(using), place.sandbox(using)
    first.close()
    assert second.tmp.kept.is_dir()


def test_bubblewrap_is_not_taken_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:bin")
    found = find_program("bwrap", os.environ["PATH"], (tmp_path,))
    assert found != str(fake)
    assert found is None or not found.startswith(str(tmp_path))


def test_a_bubblewrap_that_shuts_nothing_in_is_not_believed(place: Place) -> None:
    fake = place.root / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    box = place.root / "box"
    box.mkdir()
    policy = Policy(ground=place.ground(), cwd=place.work)
    means = Bubblewrap(str(fake), Tmp(box, box, box), survey(policy))
    assert disproof(means, policy) == "it lets commands write outside"
    assert sorted(os.listdir(place.agent)) == ["auth.json"]


def test_a_bubblewrap_that_leaves_the_kernels_settings_open_is_not_believed(place: Place) -> None:
    """It starts the real one, without the mounts over files of the kernel."""
    program = find_program("bwrap", os.environ["PATH"], (place.work,))
    if program is None or os.geteuid() != 0:
        pytest.skip("needs bubblewrap, and root, to whom these files belong")
    fake = place.root / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(
        "#!/usr/bin/env python3\n"
        "import os, sys\n"
        "words, kept = sys.argv[1:], []\n"
        "while words:\n"
        "    if words[0] == '--ro-bind-try' and words[1].startswith('/proc/'):\n"
        "        words = words[3:]\n"
        "    else:\n"
        "        kept.append(words.pop(0))\n"
        f"os.execv({program!r}, [{program!r}, *kept])\n"
    )
    fake.chmod(0o755)
    box = place.root / "box"
    box.mkdir()
    policy = Policy(ground=place.ground(), cwd=place.work)
    tmp = Tmp(box, Path("/tmp"), box)
    assert disproof(Bubblewrap(program, tmp, survey(policy)), policy) is None
    reason = disproof(Bubblewrap(str(fake), tmp, survey(policy)), policy)
    assert reason == "it lets commands change the kernel's settings"


# ---------------------------------------------------------------- Landlock


def test_around_what_is_hidden_everything_is_allowed_piece_by_piece(tmp_path: Path) -> None:
    for name in ("a/b/hidden", "a/b/open", "a/other", "c"):
        (tmp_path / name).mkdir(parents=True)
    hidden = str(tmp_path / "a/b/hidden")
    allowed = dict(launcher.readable(frozenset((hidden,))))
    below = {path for path in allowed if path.startswith(str(tmp_path))}
    assert below == {str(tmp_path / name) for name in ("a/b/open", "a/other", "c")}
    assert allowed["/"] == launcher.READ_DIR
    assert not any(
        hidden == path or hidden.startswith(f"{path}/") for path in allowed if path != "/"
    )
    assert dict(launcher.readable(frozenset())) == {"/": launcher.READ}


def test_a_link_to_something_hidden_opens_no_way_to_it(place: Place) -> None:
    shell = Shell(place, place.sandbox("landlock"))
    (place.outside / "keys").symlink_to(place.home / ".ssh")
    (place.home / "keys").symlink_to(".ssh")
    assert shell.fails(f"cat {place.outside}/keys/id")
    assert shell.fails(f"cat {place.home}/keys/id")


def test_landlock_refuses_what_it_cannot_keep(place: Place) -> None:
    if launcher.abi() < launcher.LEAST_ABI:
        pytest.skip("this kernel has no Landlock")
    ground = place.ground(network=False)
    assert lacking(Policy(ground=ground, cwd=place.work)) is None
    (place.work / ".env").write_text(SECRET)
    hides = Ground(
        environ=os.environ,
        mode="workspace",
        network=False,
        home=place.home,
        agent=place.agent,
        hide=(place.work / ".env",),
    )
    assert "cannot hide" in str(lacking(Policy(ground=hides, cwd=place.work)))
    code = place.work / "ext.py"
    code.write_text("")
    guards = Ground(
        environ=os.environ,
        mode="workspace",
        network=False,
        home=place.home,
        agent=place.agent,
        guarded=(code,),
    )
    assert "cannot protect" in str(lacking(Policy(ground=guards, cwd=place.work)))


def test_a_launcher_that_cannot_build_walls_runs_nothing(tmp_path: Path) -> None:
    for words in (["{}", "touch", "made"], ["no json", "touch", "made"], []):
        done = subprocess.run(
            ["python3", "-I", "-S", launcher.__file__, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == launcher.FAILED
        assert "was not run" in done.stderr
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- refusals


def test_a_folder_that_holds_the_home_is_no_workspace(place: Place) -> None:
    for cwd in (place.home, place.root, place.agent.parent, Path("/")):
        with pytest.raises(NoSandbox, match="it contains"):
            Sandbox(place.ground(), cwd)
    with pytest.raises(NoSandbox, match="hides"):
        Sandbox(place.ground("read-only"), place.home / ".ssh")


def test_a_folder_for_the_agents_files_is_refused_before_it_exists(place: Place) -> None:
    inside = place.work / "state" / "agent"
    with pytest.raises(NoSandbox, match="it contains"):
        Sandbox(place.ground(agent=inside), place.work)
    (place.work / "link").symlink_to(place.outside)
    with pytest.raises(NoSandbox, match="it contains"):
        Sandbox(place.ground(agent=place.work / "link" / "agent"), place.work)
    assert not inside.exists()


@MEANS
def test_the_walls_stay_around_the_folder_of_the_start(using: Using, place: Place) -> None:
    sandbox = place.sandbox(using)
    for name in (".git/hooks", ".pi/extensions", "sub"):
        (place.work / name).mkdir(parents=True)
    (place.work / "link").symlink_to(place.outside)
    for cwd in (place.outside, place.home, place.root, place.work / "link", place.work / ".."):
        with pytest.raises(NoSandbox, match="Start ludolf in"):
            sandbox.walls(cwd)
    for cwd in (place.work / ".git/hooks", place.work / ".pi/extensions"):
        with pytest.raises(NoSandbox, match="protects"):
            sandbox.walls(cwd)
    walls = sandbox.walls(place.work / "sub")
    walls.replace(place.work / "sub" / "new", b"x")
    with pytest.raises(ToolFailure, match="protects"):
        walls.replace(place.work / ".pi" / "x", b"x")


def test_where_nothing_shuts_commands_in_the_text_says_what_to_install(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "plan9")
    with pytest.raises(NoSandbox, match="apt install bubblewrap") as error:
        Sandbox(place.ground(), place.work)
    assert "bwrap) is not installed" in str(error.value)
    assert "no Landlock" in str(error.value)
