"""Workspaces of items: a clone, a worktree or a copy, the patch of the changes, and the removal.

The patch is taken with a git folder of our own: commands of the model may have changed the
configuration of the workspace's repository, and git would run the programs that it names.
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from ludolf.base import CommandError, dumps
from ludolf.fleet.folder import disk_full, private_folder, write_private
from ludolf.fleet.git import git, is_url, read_git, without_credentials

WorkspaceKind = Literal["clone", "worktree", "copy", "here"]
WORKSPACE_KINDS: tuple[WorkspaceKind, ...] = ("clone", "worktree", "copy", "here")
PUSH_DISABLED = "disabled://ludolf-batch-does-not-push"
_MARK = "workspace.json"
# Not shared with a git process that a killed worker left.
_NEW_INDEX = f"index-{os.getpid()}"
_SHA256_DIGITS = 64
# Sessions of `--via` in a workspace without a repository.
SESSIONS_IN_COPY = ".ludolf-session"
_PATHS = ("--", ".", f":(exclude){SESSIONS_IN_COPY}")


class WorkspaceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an item asks for. `repo` is a path or an address, `folder` a path inside it.

    `start` is the folder that the batch was started in, `out` that of the batch. `mirrors` is the
    folder for copies of repositories on other machines.
    """

    start: Path
    out: Path
    mirrors: Path
    kind: WorkspaceKind | None = None
    repo: str | None = None
    ref: str | None = None
    folder: str | None = None


class ItemWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace that exists; stored next to the session, so that a resume finds it.

    `root` is what is removed at the end, `cwd` the folder of the agent. `base` is the commit or
    tree that the patch is made against, and `objects` the repository that has it.
    """

    kind: WorkspaceKind
    root: str
    cwd: str
    base: str | None = None
    commit: str | None = None
    objects: str | None = None
    source: str | None = None


async def make_workspace(request: WorkspaceRequest, item: Path, work: Path) -> ItemWorkspace:
    """Make the workspace `work` and note it in the folder of the item.

    Raises:
        CommandError: the repository or folder does not exist, or git failed.
        DiskFull: the disk is full.
    """
    await remove_path(work)
    await remove_path(_own_git(work))
    try:
        made = await _made(request, work)
        inside = request.folder if made.kind in ("clone", "worktree") else None
        if inside is not None and request.repo is not None:
            made = msgspec.structs.replace(made, cwd=_inside(work, inside))
        write_private(item / _MARK, dumps(made))
    except OSError as error:
        raise disk_full(error) or CommandError(f"{error.filename}: {error.strerror}") from error
    return made


def find_workspace(item: Path) -> ItemWorkspace | None:
    """Return the workspace of an interrupted item; None if it is not there in full."""
    try:
        found = msgspec.json.decode((item / _MARK).read_bytes(), type=ItemWorkspace)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if os.path.isdir(found.cwd) else None


async def remove_workspace(item: Path, work: Path) -> None:
    """Remove the workspace of an item, and a worktree from its repository."""
    found = find_workspace(item)
    (item / _MARK).unlink(missing_ok=True)
    await remove_path(work)
    await remove_path(_own_git(work))
    if found is not None and found.kind == "worktree" and found.source is not None:
        await read_git("worktree", "prune", cwd=Path(found.source))


async def remove_path(path: Path) -> None:
    """Remove a file or a folder with all that it contains, if it exists."""
    await asyncio.to_thread(_remove_tree, path)


def _remove_tree(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    # Folders that a command made read-only keep their content.
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def partial_path(work: Path) -> Path:
    """Return where a workspace is made: a git that a killed worker left may still write to another.

    The driver removes what is left of such folders.
    """
    return work.with_name(f".{work.name}-{os.urandom(4).hex()}")


# ---------------------------------------------------------------- kinds


async def _made(request: WorkspaceRequest, work: Path) -> ItemWorkspace:
    if request.repo is not None and is_url(request.repo):
        mirror = await _mirror(request.repo, request.mirrors)
        return await _clone(mirror, request.ref, work, without_credentials(request.repo))
    source = existing_folder(request.start, request.repo or request.folder or ".")
    kind = request.kind
    if kind == "here":
        return ItemWorkspace(kind="here", root=str(source), cwd=str(source))
    top = await read_git("rev-parse", "--show-toplevel", cwd=source) if kind != "copy" else None
    if top is None:
        if kind in ("clone", "worktree") or request.ref is not None:
            raise CommandError(f"{source} is not in a git repository. Use --in copy or --in here.")
        return await _copy(source, work, request.out)
    make = _worktree if kind == "worktree" else _clone_of_path
    made = await make(Path(top), request.ref, work)
    part = _part_of(Path(top), source) if request.repo is None else "."
    return msgspec.structs.replace(made, cwd=_inside(work, part)) if part != "." else made


def _part_of(top: Path, source: Path) -> str:
    return os.path.relpath(source, os.path.realpath(top))


def existing_folder(start: Path, name: str) -> Path:
    """Return a folder by its path, relative to the start of the batch.

    Raises:
        CommandError: it does not exist.
    """
    path = Path(start, os.path.expanduser(name))
    if not path.is_dir():
        raise CommandError(f"{path} is not a folder.")
    return Path(os.path.realpath(path))


def _inside(work: Path, folder: str) -> str:
    path = os.path.realpath(work / folder)
    if not Path(path).is_relative_to(os.path.realpath(work)) or not os.path.isdir(path):
        raise CommandError(f'The repository has no folder "{folder}".')
    return path


async def _clone_of_path(source: Path, ref: str | None, work: Path) -> ItemWorkspace:
    origin = await read_git("config", "remote.origin.url", cwd=source)
    return await _clone(source, ref, work, without_credentials(origin) if origin else None)


async def _clone(source: Path, ref: str | None, work: Path, origin: str | None) -> ItemWorkspace:
    base = await find_commit(source, ref)
    words = ("--local", "--quiet", *(() if ref is None else ("--no-checkout",)))
    part = partial_path(work)
    await git("clone", *words, "--", str(source), str(part), cwd=work.parent)
    if ref is not None:
        await git("checkout", "--quiet", "--detach", base, cwd=part)
    if origin is None:
        await git("remote", "remove", "origin", cwd=part)
    else:
        await git("config", "remote.origin.url", origin, cwd=part)
        await git("config", "remote.origin.pushurl", PUSH_DISABLED, cwd=part)
    part.rename(work)
    return await _at_commit("clone", source, work, base)


async def _worktree(source: Path, ref: str | None, work: Path) -> ItemWorkspace:
    base = await find_commit(source, ref)
    await git("worktree", "prune", cwd=source)
    await git("worktree", "add", "--quiet", "--detach", "--", str(work), base, cwd=source)
    return await _at_commit("worktree", source, work, base)


async def _at_commit(kind: WorkspaceKind, source: Path, work: Path, base: str) -> ItemWorkspace:
    return ItemWorkspace(
        kind=kind,
        root=str(work),
        cwd=str(work),
        base=base,
        commit=base,
        objects=await _git_folder(source),
        source=str(source),
    )


async def _git_folder(source: Path) -> str:
    found = await git("rev-parse", "--git-common-dir", cwd=source)
    return os.path.join(source, os.fsdecode(found.strip()))


async def find_commit(source: Path, ref: str | None) -> str:
    """Return the commit that a branch, a tag or a commit names; HEAD without a name.

    Raises:
        CommandError: the repository does not have it.
    """
    name = f"{ref or 'HEAD'}^{{commit}}"
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options")
    found = await read_git(*words, name, cwd=source)
    if not found and ref is not None:
        found = await read_git(*words, f"refs/remotes/origin/{name}", cwd=source)
    if not found:
        raise CommandError(f'{source} has no commit "{ref or "HEAD"}".')
    return found.splitlines()[-1]


async def _copy(source: Path, work: Path, out: Path) -> ItemWorkspace:
    part = partial_path(work)
    try:
        await asyncio.to_thread(_copy_tree, source, part, out)
    except shutil.Error as error:
        raise CommandError(f"{source} cannot be copied: {error.args[0][0][2]}") from error
    own = _make_own_git(part, None, 0)
    base = None
    if (await read_git("--version", cwd=part)) is not None:
        variables = _variables(own, part)
        await git("add", "--all", "--force", *_PATHS, cwd=part, variables=variables)
        base = (await git("write-tree", cwd=part, variables=variables)).decode().strip()
        (own / _NEW_INDEX).rename(own / "index")
    own.rename(_own_git(work))
    part.rename(work)
    return ItemWorkspace(kind="copy", root=str(work), cwd=str(work), base=base, source=str(source))


def _copy_tree(source: Path, work: Path, out: Path) -> None:
    """Copy a folder without that of the batch, which may be in it."""
    left_out = os.path.realpath(out)

    def ignored(folder: str, names: list[str]) -> set[str]:
        if os.path.dirname(left_out) != os.path.realpath(folder):
            return set()
        return {os.path.basename(left_out)}.intersection(names)

    shutil.copytree(source, work, symlinks=True, ignore=ignored)


# ---------------------------------------------------------------- mirrors


async def _mirror(url: str, folder: Path) -> Path:
    """Return a local mirror of a repository, with the present state of its branches and tags."""
    name = hashlib.sha256(without_credentials(url).encode()).hexdigest()[:24]
    path = private_folder(folder) / f"{name}.git"
    async with _file_lock(folder / f"{name}.lock") as lock:
        if (path / "HEAD").is_file():
            words = ("--quiet", "--prune", "--", url, "+refs/*:refs/*")
            await git("fetch", *words, cwd=path, lock=lock)
            return path
        part = folder / f"{name}.part"
        await remove_path(part)
        await git("clone", "--quiet", "--mirror", "--", url, str(part), cwd=folder, lock=lock)
        await git("config", "remote.origin.url", without_credentials(url), cwd=part)
        part.rename(path)
    return path


@asynccontextmanager
async def _file_lock(path: Path) -> AsyncIterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------- patches


async def take_patch(workspace: ItemWorkspace, work: Path) -> bytes | None:
    """Return the changes since the base as a binary patch, with new files and commits.

    None if the workspace has no base.

    Raises:
        CommandError: git failed.
    """
    if workspace.base is None:
        return None
    own = _own_git(work)
    try:
        if workspace.objects is not None:
            own = _make_own_git(work, workspace.objects, len(workspace.base))
        await _borrow_index(workspace, own, work)
        variables = _variables(own, work)
        force = ("--force",) if workspace.kind == "copy" else ()
        await git("add", "--all", *force, *_PATHS, cwd=work, variables=variables)
        words = ("diff", "--cached", "--binary", "--no-color", "--no-ext-diff", "--no-textconv")
        return await git(*words, workspace.base, "--", cwd=work, variables=variables)
    except OSError as error:
        raise disk_full(error) or CommandError(f"{error.filename}: {error.strerror}") from error


async def _borrow_index(workspace: ItemWorkspace, own: Path, work: Path) -> None:
    """Start from the index of the workspace, which spares reading files that did not change."""
    assert workspace.base is not None
    index = own / "index" if workspace.kind == "copy" else work / ".git" / "index"
    variables, new = _variables(own, work), own / _NEW_INDEX
    new.unlink(missing_ok=True)
    if workspace.kind != "worktree" and index.is_file() and not index.is_symlink():
        shutil.copyfile(index, new)
        try:
            await git("ls-files", "--", ":(top)no/such/file", cwd=work, variables=variables)
            return
        except CommandError:
            new.unlink(missing_ok=True)
    await git("read-tree", workspace.base, cwd=work, variables=variables)


def _own_git(work: Path) -> Path:
    return work.with_name(f"{work.name}.git")


def _make_own_git(work: Path, objects: str | None, digits: int) -> Path:
    own = _own_git(work)
    shutil.rmtree(own, ignore_errors=True)
    (own / "objects" / "info").mkdir(parents=True, mode=0o700)
    (own / "refs").mkdir()
    (own / "HEAD").write_text("ref: refs/heads/ludolf\n")
    config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
    if digits == _SHA256_DIGITS:
        config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
    (own / "config").write_text(config)
    if objects is not None:
        # The base is in the first one; the index may name new objects of the workspace.
        places = (os.path.join(objects, "objects"), str(work / ".git" / "objects"))
        known = "".join(f"{place}\n" for place in places if os.path.isdir(place))
        (own / "objects" / "info" / "alternates").write_bytes(os.fsencode(known))
    return own


def _variables(own: Path, work: Path) -> dict[str, str]:
    variables = {"GIT_DIR": str(own), "GIT_WORK_TREE": str(work)}
    return variables | {"GIT_INDEX_FILE": str(own / _NEW_INDEX)}
