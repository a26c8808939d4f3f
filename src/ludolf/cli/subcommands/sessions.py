"""`ludolf sessions`: list, search, show, rename, delete, export and import stored sessions."""

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from ludolf.ai.messages import AssistantMessage, Message, Thinking, ToolResultMessage
from ludolf.base import CommandError, Value
from ludolf.cli.subcommands import with_default
from ludolf.cli.terminal import columns, one_line, plain, say, say_json, table, width
from ludolf.config.settings.files import is_exposed
from ludolf.config.settings.home import current_folder, find_home, session_dir_override
from ludolf.engine.build import warn_on_stderr
from ludolf.session.finder import (
    SessionElsewhere,
    SessionFolder,
    SessionRecord,
    find,
    list_sessions,
    local_time,
    short_ids,
)
from ludolf.session.library import SearchHit, rename, search, spoken_text, trash
from ludolf.session.tree import open_session


class SessionMatch(Value, kw_only=True):
    """A session that contains a text, and the matches."""

    session: SessionRecord
    hits: tuple[SearchHit, ...]


def run(words: Sequence[str]) -> int:
    """Run `ludolf sessions WORDS`; returns the exit code.

    Raises:
        CommandError: the session does not exist or cannot be changed.
    """
    parser = _parser()
    arguments = parser.parse_args(with_default(parser, words, "list"))
    place = session_place(arguments.session_dir)
    act: Callable[[Namespace, SessionFolder], int] = arguments.act
    return act(arguments, place)


def run_export(words: Sequence[str]) -> int:
    """Run `ludolf export WORDS`; returns the exit code.

    Raises:
        CommandError: the session does not exist, or the page cannot be written.
    """
    parser = ArgumentParser(prog="ludolf export", description="Write a session as an HTML page.")
    _add_export(parser)
    parser.add_argument("--session-dir", metavar="DIR", help="folder of sessions")
    arguments = parser.parse_args(words)
    return _export(arguments, session_place(arguments.session_dir))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="ludolf sessions", description="Manage stored sessions.")
    parser.add_argument("--session-dir", metavar="DIR", help="folder of sessions")
    parser.set_defaults(act=_list, all=False, json=False, limit=None)
    words = parser.add_subparsers(title="commands", metavar="COMMAND")

    def word(
        name: str, act: Callable[[Namespace, SessionFolder], int], about: str
    ) -> ArgumentParser:
        command = words.add_parser(name, help=about, description=about)
        command.set_defaults(act=act)
        return command

    command = word("list", _list, "list sessions, most recently used first (the default)")
    command.add_argument("--limit", type=int, metavar="N", help="list at most N sessions")
    _add_scope(command)
    command = word("find", _find, "search the text of all messages, tool calls and outputs")
    command.add_argument("text")
    _add_scope(command)
    command = word("show", _show, "print a conversation")
    command.add_argument("session", help=SESSION_NAMES)
    command.add_argument("--json", action="store_true", help="print its messages as JSON lines")
    command = word("rename", _rename, "name a session")
    command.add_argument("session", help=SESSION_NAMES)
    command.add_argument("name")
    command = word("delete", _delete, "move sessions to the trash folder")
    command.add_argument("sessions", nargs="+", metavar="session", help=SESSION_NAMES)
    _add_export(word("export", _export, "write a session as an HTML page, or as a session file"))
    command = word("import", _import, "copy session files to the sessions of this folder")
    command.add_argument("files", nargs="+", metavar="file", type=Path)
    return parser


def _add_export(parser: ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", default="last", help=f"{SESSION_NAMES} (the default)")
    parser.add_argument("file", nargs="?", help="default: a new file in the current folder")
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="write the active branch as a session file (default for a FILE ending in .jsonl)",
    )


def _add_scope(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="include the sessions of all folders")
    parser.add_argument("--json", action="store_true", help="print JSON lines, for scripts")


_PAGES = (".html", ".htm", ".xhtml")
SESSION_NAMES = "a path, an id or its first characters, or `last`"


def session_place(session_dir: str | None) -> SessionFolder:
    """Return the place where sessions of the current folder are stored."""
    cwd = current_folder()
    home = find_home(cwd, os.environ)
    custom = session_dir_override(os.environ)
    if session_dir:
        custom = (cwd / home.expand(session_dir)).absolute()
    return SessionFolder(agent_dir=home.agent, cwd=str(cwd), home=home.user, custom=custom)


def locate(place: SessionFolder, name: str) -> Path:
    """Return the file of a session of this or another project.

    Raises:
        CommandError: the session does not exist, or several match.
    """
    try:
        path = find(place, name)
    except SessionElsewhere as elsewhere:
        path = elsewhere.path
    if not path.is_file():
        raise CommandError(f"File not found: {name}")
    return path


# ---------------------------------------------------------------- many


def _list(arguments: Namespace, place: SessionFolder) -> int:
    records = list_sessions(place, everywhere=arguments.all)
    shown = records[: arguments.limit]
    if arguments.json:
        _lines(shown)
    elif shown:
        say(_table(shown, short_ids(record.id for record in records), arguments.all))
        _warn_of_exposure(records, place)
    else:
        more = "" if arguments.all else " in this folder; --all lists those of all folders"
        sys.stderr.write(f"No sessions{more}.\n")
    return 0


def _table(records: Sequence[SessionRecord], short: dict[str, str], everywhere: bool) -> str:
    rows = [["id", "last used", "messages"]]
    for record in records:
        used = local_time(record.modified)
        rows.append([one_line(short[record.id], 36), used, str(record.message_count)])
    room = columns() - sum(max(map(width, column)) + 2 for column in zip(*rows, strict=True))
    if everywhere:
        folders = ["folder", *(_folder(record.cwd, max(10, room // 2)) for record in records)]
        room -= max(map(width, folders)) + 2
        rows = [[*row, folder] for row, folder in zip(rows, folders, strict=True)]
    names = ["name", *(one_line(record.title, max(10, room)) for record in records)]
    return table([[*row, name] for row, name in zip(rows, names, strict=True)])


def _folder(cwd: str, limit: int) -> str:
    """Return a folder in at most `limit` columns; its end says most."""
    home = os.path.expanduser("~")
    text = f"~{cwd[len(home) :]}" if f"{cwd}/".startswith(f"{home}/") else cwd
    text = " ".join(plain(text).split())
    if width(text) <= limit:
        return text
    while text and width(text) > limit - 1:
        text = text[1:]
    return f"…{text}"


def _warn_of_exposure(records: Sequence[SessionRecord], place: SessionFolder) -> None:
    count = sum(is_exposed(Path(record.path)) for record in records)
    if count:
        folder = place.custom or place.root
        files = "1 session file" if count == 1 else f"{count} session files"
        warn_on_stderr(
            f"Other users can read {files}. To keep all sessions private: chmod 700 {folder}"
        )


def _find(arguments: Namespace, place: SessionFolder) -> int:
    matches = [
        SessionMatch(session=record, hits=hits)
        for record in list_sessions(place, everywhere=arguments.all)
        if (hits := tuple(search(Path(record.path), arguments.text)))
    ]
    if arguments.json:
        _lines(matches)
        return 0
    for match in matches:
        say(_match_lines(match))
    if not matches:
        sys.stderr.write(f'No session contains "{plain(arguments.text)}".\n')
    return 0 if matches else 1


def _match_lines(match: SessionMatch) -> str:
    record, room = match.session, columns()
    title = one_line(record.title, max(20, room - 38))
    lines = [f"{one_line(record.id, 36)}  {title}"]
    lines += [
        f"    {hit.role}: {one_line(hit.excerpt, room - 8 - len(hit.role))}"
        for hit in match.hits[:5]
    ]
    if len(match.hits) > 5:
        lines.append(f"    and {len(match.hits) - 5} more")
    return "\n".join(lines) + "\n"


def _lines(values: Iterable[Any]) -> None:
    for value in values:
        say_json(value)


# ---------------------------------------------------------------- one


def _show(arguments: Namespace, place: SessionFolder) -> int:
    path = locate(place, arguments.session)
    session = open_session(path, place.cwd, warn_on_stderr, write=False)
    messages = session.context.messages()
    if arguments.json:
        _lines(messages)
        return 0
    say(f"{plain(session.name or session.id)}  {plain(session.header.cwd)}\n")
    for message in messages:
        if isinstance(message, Message):
            say(_spoken(message))
    return 0


def _spoken(message: Message) -> str:
    who = message.role
    if isinstance(message, ToolResultMessage):
        who = f"{message.tool_name}{' failed' if message.is_error else ''}"
    text = plain(_marked_text(message)).strip()
    if isinstance(message, AssistantMessage) and message.error_message:
        text += f"\n({message.stop_reason}: {plain(message.error_message)})"
    return f"## {plain(who)}\n{text}\n"


def _marked_text(message: Message) -> str:
    """Return the text of a message with its thinking as a quotation."""
    if not isinstance(message, AssistantMessage):
        return spoken_text(message)
    pieces = []
    for block in message.content:
        text = spoken_text(structs.replace(message, content=(block,))).strip()
        if isinstance(block, Thinking):
            text = "> thinking: " + text.replace("\n", "\n> ") + "\n" if text else ""
        if text:
            pieces.append(text)
    return "\n".join(pieces)


def _rename(arguments: Namespace, place: SessionFolder) -> int:
    rename(place, str(locate(place, arguments.session)), arguments.name, warn_on_stderr)
    return 0


def _delete(arguments: Namespace, place: SessionFolder) -> int:
    for name in arguments.sessions:
        target = trash(place, str(locate(place, name)), warn_on_stderr)
        say(f"Moved to {target}")
    return 0


def _import(arguments: Namespace, place: SessionFolder) -> int:
    from ludolf.session.branching import import_file

    for file in arguments.files:
        before = set(place.folder.glob("*.jsonl"))
        try:
            path = import_file(file.expanduser(), place.folder)
            say(f"Already imported: {path}" if path in before else f"Imported as {path}")
        except OSError as error:
            raise CommandError(f"Cannot import {file}: {error.strerror}") from error
    return 0


def _export(arguments: Namespace, place: SessionFolder) -> int:
    path = str(locate(place, arguments.session))
    as_page = not arguments.jsonl and Path(arguments.file or "").suffix != ".jsonl"
    return export_file(path, arguments.file, as_page=as_page, overwrite=arguments.force)


def export_named(session_dir: str | None, name: str, file: str | None = None) -> int:
    """Write the page of a session for `--export`, which takes a path of any form or an id.

    Raises:
        CommandError: the session does not exist, or the page cannot be written.
    """
    path = Path(name).expanduser()
    return export_file(
        str(path if path.is_file() else locate(session_place(session_dir), name)), file
    )


def export_file(
    source: str, file: str | None = None, *, as_page: bool = True, overwrite: bool = False
) -> int:
    """Write a page or a session file, print its path and return the exit code.

    Raises:
        CommandError: the session does not exist, or the file cannot be written.
    """
    from ludolf.cli.progress import working
    from ludolf.page.html import export_html
    from ludolf.session.branching import export_jsonl

    path, target = Path(source).expanduser(), Path(file).expanduser() if file else None
    if not path.is_file():
        raise CommandError(f"File not found: {source}")
    if target is not None and target.exists() and not overwrite:
        raise CommandError(
            f"File exists: {target}. Choose another name, or replace the file with "
            f"`ludolf export {shlex.quote(source)} {shlex.quote(str(file))} --force`."
        )
    if target is not None and as_page and target.suffix.lower() not in _PAGES:
        sys.stderr.write(
            f"Note: {target} is an HTML page. The name of a page usually ends in .html, and a name "
            "that ends in .jsonl selects a session file.\n"
        )
    with working("Loading the session"):
        session = open_session(path, str(current_folder()), warn_on_stderr, write=False)
    if as_page:
        with working("Writing the page") as on_progress:
            written = export_html(session, target, overwrite=overwrite, on_progress=on_progress)
    else:
        written = export_jsonl(session, target, overwrite=overwrite)
    say(f"Exported to: {written}")
    return 0
