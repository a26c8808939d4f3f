"""The sandbox of a session: choose bubblewrap or Landlock, and test it before the first command."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import structs

from ludolf.base.programs import find_program
from ludolf.tools.output import OUTPUT_PREFIX, make_private, spill_folder
from ludolf.tools.sandbox import sensitive_paths as places
from ludolf.tools.sandbox.bubblewrap import SHOWN_TMP, Bubblewrap, shown_in_private
from ludolf.tools.sandbox.file_access import FileWalls, Tmp
from ludolf.tools.sandbox.guard import NoSandbox, code_by_links, survey
from ludolf.tools.sandbox.landlock import Landlock, lacking
from ludolf.tools.sandbox.leftovers import is_running, remove_of_dead
from ludolf.tools.sandbox.links import follow
from ludolf.tools.sandbox.policy import Argv, Enclosed, Ground, Policy

Using = Literal["auto", "bwrap", "landlock"]
Means = Bubblewrap | Landlock
_PROOF_SECONDS = 10
# Checks that temporary files can be written, but not a folder outside or the kernel settings, some
# of which name programs to run. Settings are only opened; the redirection fails in a subshell.
_PROOF = """
echo x > "$TMPDIR/proof" || exit 3
(echo x > "$1") 2>/dev/null && exit 4
shift
for file in "$@"; do
    if [ -e "$file" ] && (: >> "$file") 2>/dev/null; then exit 5; fi
done
exit 0
"""
_REASONS = {4: "it lets commands write outside", 5: "it lets commands change the kernel's settings"}


class Sandbox:
    """Sandbox of one session; `close` removes its temporary files."""

    def __init__(self, ground: Ground, cwd: Path, using: Using = "auto") -> None:
        """Create the sandbox for a folder; its start folder does not change later.

        Raises:
            NoSandbox: no means is available here. Commands never run without the sandbox.
        """
        self._start = Path(os.path.realpath(cwd))
        self._shown_start = cwd
        self._walls: dict[Path, FileWalls] = {}
        self.ground = self._settled(ground)
        policy = self._policy(cwd)
        _check(policy)
        self._base, self._box = _make_box()
        try:
            self._means = self._choose(policy, using)
        except BaseException:
            _remove(self._box)
            raise

    @property
    def name(self) -> str:
        """Means that restricts commands: `bwrap` or `landlock`."""
        return self._means.name

    @property
    def tmp(self) -> Tmp:
        return self._means.tmp

    @property
    def output_folder(self) -> Path:
        """Folder of the complete output of commands."""
        return make_private(self.tmp.kept)

    def walls(self, cwd: Path) -> FileWalls:
        """Return file access for tools in a folder: the start folder, or one below it.

        Raises:
            NoSandbox: the folder is outside the sandbox.
        """
        if cwd not in self._walls:
            self.check_folder(cwd)
            self._walls[cwd] = FileWalls(self._policy(cwd), self)
        return self._walls[cwd]

    def check_folder(self, cwd: Path) -> None:
        """Check that tools may work in a folder.

        Raises:
            NoSandbox: the folder is outside the sandbox, or code is run from it.
        """
        folder = Path(os.path.realpath(cwd))
        if not folder.is_relative_to(self._start):
            raise NoSandbox(
                f"{cwd} is outside {self._shown_start}, for which the sandbox was created. "
                f"Start ludolf in {cwd} to work there."
            )
        policy = self._policy(self._shown_start)
        if folder == self._start:
            return
        if policy.is_protected(folder) or policy.is_hidden(folder):
            raise NoSandbox(f"The sandbox protects {cwd}: tools cannot work there.")

    def enclose(self, policy: Policy, argv: Argv, cwd: Path, env: Mapping[str, str]) -> Enclosed:
        if os.path.realpath(self._start) != str(self._start):
            raise NoSandbox(f"{self._start} was replaced by a link: the command was not run.")
        return enclosed(self._means, policy, argv, cwd, env)

    def writable(self, cwd: Path) -> tuple[Path, ...]:
        """Return folders that commands can write, from which nothing may run outside."""
        return (*Policy(ground=self.ground, cwd=cwd).writable, self._box)

    def sweep(self) -> tuple[Path, ...]:
        """Remove files by which a command would run code outside; return these files."""
        return self._means.sweep()

    def close(self) -> None:
        self._means.close()
        # `tmp.kept` stays: other sessions in the same folder mount it.
        _remove(self._box)

    def _policy(self, cwd: Path) -> Policy:
        return Policy(ground=self.ground, cwd=cwd, start=self._start)

    def _settled(self, ground: Ground) -> Ground:
        """Resolve links once, since a command could change them later."""
        write = tuple(Path(os.path.realpath(path)) for path in ground.write)
        ground = structs.replace(ground, write=write)
        policy = Policy(ground=ground, cwd=self._start, start=self._start)
        within = tuple(path for path in policy.hidden if policy.is_writable(path))
        return structs.replace(ground, hide=(*ground.hide, *within), linked=code_by_links(policy))

    def _choose(self, policy: Policy, using: Using) -> Means:
        reasons: list[str] = []
        for name, make in (("bwrap", self._bubblewrap), ("landlock", self._landlock)):
            if using not in ("auto", name):
                continue
            means = make(policy)
            if isinstance(means, str):
                reasons.append(means)
            elif failed := disproof(means, policy):
                reasons.append(f"{name} does not work here ({failed})")
                means.close()
            else:
                return means
        raise NoSandbox(
            f"No sandbox is available here: {'; '.join(reasons)}. Install bubblewrap "
            '(for example: apt install bubblewrap), or start with the sandbox mode "off".'
        )

    def _bubblewrap(self, policy: Policy) -> Bubblewrap | str:
        closed = (policy.cwd, *policy.writable)
        path, on_linux = policy.ground.environ.get("PATH", ""), sys.platform.startswith("linux")
        program = find_program("bwrap", path, closed) if on_linux else None
        if program is None:
            return "bubblewrap (bwrap) is not installed"
        # Let it raise: another kind of sandbox would protect even less.
        guard = survey(policy)
        private = tuple(map(Path, places.PRIVATE))
        return Bubblewrap(program, self._tmp(SHOWN_TMP, private, shown_in_private()), guard)

    def _landlock(self, policy: Policy) -> Landlock | str:
        if reason := lacking(policy):
            return reason
        if policy.is_writable(self._base):
            return f"Landlock cannot hide {self._base} in a folder that is open to commands"
        return Landlock(self._tmp(self._box, (Path("/dev"),), ()))

    def _tmp(self, shown: Path, private: tuple[Path, ...], public: tuple[Path, ...]) -> Tmp:
        # Output of earlier sessions in the same folder is visible, that of other folders is not.
        name = hashlib.sha256(os.fsencode(self._start)).hexdigest()[:16]
        kept = make_private(self._base / f"{OUTPUT_PREFIX}{name}")
        return Tmp(self._box, shown, kept, self._base, private, public)


def _check(policy: Policy) -> None:
    """Check that a sandbox can protect the folder.

    Raises:
        NoSandbox: it cannot.
    """
    folder, reason = policy.folder, ""
    if policy.is_hidden(folder):
        reason = "the sandbox hides this folder"
    elif policy.ground.mode == "workspace":
        for held in (policy.ground.home, policy.ground.agent):
            # Also one that does not exist yet, and one that a link in the folder leads to.
            followed = follow(held.absolute())
            if any(path.is_relative_to(folder) for path in (followed.path, *followed.links)):
                reason = f"it contains {held}. Start in a separate folder, or read-only"
        if (folder / ".pi").is_symlink():
            reason = "its .pi is a link, which commands could replace"
    if reason:
        raise NoSandbox(f"No sandbox for {policy.cwd}: {reason}.")


def enclosed(
    means: Means, policy: Policy, argv: Argv, cwd: Path, env: Mapping[str, str]
) -> Enclosed:
    """Return the command that runs this one in the sandbox, with its folder and environment."""
    kept = {name: value for name, value in env.items() if name not in places.LEADING_OUT}
    tmp = str(means.tmp.shown)
    cache = os.path.join(tmp, "cache")
    kept |= {"TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}
    # Programs keep caches in the home folder, which is not writable.
    kept |= {"XDG_CACHE_HOME": cache, "npm_config_cache": os.path.join(cache, "npm")}
    kept["LUDOLF_SANDBOX"] = policy.ground.mode
    return means.enclose(policy, argv, cwd, kept)


def disproof(means: Means, policy: Policy) -> str | None:
    """Test the sandbox; return why it does not work, or None if it does."""
    ground = policy.ground
    outside = ground.agent if ground.agent.is_dir() else ground.home
    target = outside / f".sandbox-proof-{os.urandom(6).hex()}"
    command = ("/bin/sh", "-c", _PROOF, "sh", str(target), *places.KERNEL_SETTINGS)
    argv, cwd, env = enclosed(means, policy, command, policy.folder, ground.environ)
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROOF_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    (means.tmp.real / "proof").unlink(missing_ok=True)
    if target.exists():
        target.unlink()
        return _REASONS[4]
    message = done.stderr.decode("utf-8", "replace").strip()
    code = done.returncode
    return None if code == 0 else _REASONS.get(code) or message[:200] or f"exit code {code}"


def _make_box() -> tuple[Path, Path]:
    """Return the base folder and a new private temporary folder in it.

    Removes the temporary folders of programs that have ended.
    """
    base = Path(os.path.realpath(spill_folder()))
    for old in base.glob("box-*"):
        if not is_running(old.name.split("-")[1]):
            _remove(old)
    remove_of_dead(base)
    box = base / f"box-{os.getpid()}-{os.urandom(6).hex()}"
    box.mkdir(mode=0o700)
    return base, box


def _remove(box: Path) -> None:
    from shutil import rmtree

    rmtree(box, ignore_errors=True)
