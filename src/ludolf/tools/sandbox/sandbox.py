"""The sandbox of a session: what shuts commands in here, proven before the first one runs."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import structs

from ludolf.base.programs import find_program
from ludolf.tools.overflow_file import OUTPUT_PREFIX, make_private, spill_folder
from ludolf.tools.sandbox import sensitive_paths as places
from ludolf.tools.sandbox.bubblewrap import SHOWN_TMP, Bubblewrap, shown_in_private
from ludolf.tools.sandbox.file_access import FileWalls, Tmp
from ludolf.tools.sandbox.guard import NoSandbox, code_by_links, survey
from ludolf.tools.sandbox.landlock import Landlock, lacking
from ludolf.tools.sandbox.leftovers import is_running, remove_of_dead
from ludolf.tools.sandbox.links import follow
from ludolf.tools.sandbox.policy import Ground, Policy

Using = Literal["auto", "bwrap", "landlock"]
Means = Bubblewrap | Landlock
_PROOF_SECONDS = 10
# Temporary files can be written, a folder outside cannot, nor can settings of the kernel, some of
# which name programs that it runs. They are only opened; the redirection fails in a subshell.
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
    """Close it when done: its temporary files go with it."""

    def __init__(self, ground: Ground, cwd: Path, using: Using = "auto") -> None:
        """Build the walls around a folder, in which they stay.

        Raises:
            NoSandbox: nothing here can do it. Nothing runs without the walls that were asked for.
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
        """What shuts commands in: `bwrap` or `landlock`."""
        return self._means.name

    @property
    def tmp(self) -> Tmp:
        return self._means.tmp

    @property
    def output_folder(self) -> Path:
        """Where the whole output of commands is kept."""
        return make_private(self.tmp.kept)

    def walls(self, cwd: Path) -> FileWalls:
        """The walls for tools that work in a folder: the one of the start, or one below it.

        Raises:
            NoSandbox: the folder is outside the walls.
        """
        if cwd not in self._walls:
            self.check_folder(cwd)
            self._walls[cwd] = FileWalls(self._policy(cwd), self)
        return self._walls[cwd]

    def check_folder(self, cwd: Path) -> None:
        """Raises:
        NoSandbox: a folder is outside the walls, or one that code is run from.
        """
        folder = Path(os.path.realpath(cwd))
        if not folder.is_relative_to(self._start):
            raise NoSandbox(
                f"{cwd} is outside {self._shown_start}, around which the sandbox was built. "
                f"Start ludolf in {cwd} to work there."
            )
        policy = self._policy(self._shown_start)
        if folder == self._start:
            return
        if policy.is_protected(folder) or policy.is_hidden(folder):
            raise NoSandbox(f"The sandbox protects {cwd}: tools cannot work there.")

    def enclose(
        self, policy: Policy, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        if os.path.realpath(self._start) != str(self._start):
            raise NoSandbox(f"{self._start} was replaced by a link: the command was not run.")
        return enclosed(self._means, policy, argv, cwd, env)

    def writable(self, cwd: Path) -> tuple[Path, ...]:
        """Where commands can write: nothing from there may run outside."""
        return (*Policy(ground=self.ground, cwd=cwd).writable, self._box)

    def sweep(self) -> tuple[Path, ...]:
        """Remove files by which a command would run code outside; returns these files."""
        return self._means.sweep()

    def close(self) -> None:
        self._means.close()
        _remove(self._box)
        with suppress(OSError):  # it holds output that a later session may look up
            self.tmp.kept.rmdir()

    def _policy(self, cwd: Path) -> Policy:
        return Policy(ground=self.ground, cwd=cwd, start=self._start)

    def _settled(self, ground: Ground) -> Ground:
        """Resolve links once: later a command could make them lead elsewhere."""
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
            f"No sandbox can be made here: {'; '.join(reasons)}. Install bubblewrap "
            "(for example: apt install bubblewrap), or start with --sandbox off."
        )

    def _bubblewrap(self, policy: Policy) -> Bubblewrap | str:
        closed = (policy.cwd, *policy.writable)
        program = find_program("bwrap", closed) if sys.platform.startswith("linux") else None
        if program is None:
            return "bubblewrap (bwrap) is not installed"
        # Raises if it must: another kind of sandbox would protect even less.
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
        # Output of earlier sessions in the same folder can be looked up, that of others cannot.
        name = hashlib.sha256(os.fsencode(self._start)).hexdigest()[:16]
        kept = make_private(self._base / f"{OUTPUT_PREFIX}{name}")
        return Tmp(self._box, shown, kept, base=self._base, private=private, public=public)


def _check(policy: Policy) -> None:
    """Raises:
    NoSandbox: the folder cannot be worked in.
    """
    folder, reason = policy.folder, ""
    if policy.is_hidden(folder):
        reason = "it is a place that the sandbox hides"
    elif policy.ground.mode == "workspace":
        for held in (policy.ground.home, policy.ground.agent):
            # Also one that does not exist yet, and one that a link in the folder leads to.
            followed = follow(held.absolute())
            if any(path.is_relative_to(folder) for path in (followed.path, *followed.links)):
                reason = f"it holds {held}. Start in a folder of its own, or read-only"
        if (folder / ".pi").is_symlink():
            reason = "its .pi is a link, which commands could replace"
    if reason:
        raise NoSandbox(f"No sandbox for {policy.cwd}: {reason}.")


def enclosed(
    means: Means, policy: Policy, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
) -> tuple[tuple[str, ...], Path, dict[str, str]]:
    """The command that runs this one within the walls, and where and with what to start it."""
    kept = {name: value for name, value in env.items() if name not in places.LEADING_OUT}
    tmp = str(means.tmp.shown)
    cache = os.path.join(tmp, "cache")
    kept |= {"TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}
    # Tools keep caches in the home folder, which cannot be written to.
    kept |= {"XDG_CACHE_HOME": cache, "npm_config_cache": os.path.join(cache, "npm")}
    kept["LUDOLF_SANDBOX"] = policy.ground.mode
    return means.enclose(policy, argv, cwd, kept)


def disproof(means: Means, policy: Policy) -> str | None:
    """What shows that the walls do not stand; None if they do."""
    ground = policy.ground
    outside = ground.agent if ground.agent.is_dir() else ground.home
    target = outside / f".sandbox-proof-{os.urandom(6).hex()}"
    command = ("/bin/sh", "-c", _PROOF, "sh", str(target), *places.KERNEL_SETTINGS)
    argv, cwd, env = enclosed(means, policy, command, policy.folder, os.environ)
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
    said = done.stderr.decode("utf-8", "replace").strip()
    code = done.returncode
    return None if code == 0 else _REASONS.get(code) or said[:200] or f"exit code {code}"


def _make_box() -> tuple[Path, Path]:
    """The base and in it a private folder for temporary files; those of dead programs go."""
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
