"""`ludolf sessions`: stored sessions listed, searched, shown, named, deleted, carried about."""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ludolf.ai.messages import AssistantMessage, Message, ToolResultMessage
from ludolf.base import CommandError, Value, dumps
from ludolf.cli.terminal import columns, one_line, plain, say, table
from ludolf.config.settings.home import expand, find_home, session_dir_override
from ludolf.engine.build import current_folder, warn_on_stderr
from ludolf.session.finder import (
    Place,
    SessionElsewhere,
    SessionRecord,
    find,
    latest,
    list_sessions,
)
from ludolf.session.library import Hit, rename, search, spoken_text, trash
from ludolf.session.tree import Session, open_session


class Found(Value, kw_only=True):
    """A session that holds a text, and where."""

    session: SessionRecord
    hits: tuple[Hit, ...]


def run(words: Sequence[str]) -> int:
    """Raises:
    CommandError: there is no such session, or it cannot be changed.
    """
    arguments = _parser().parse_args(words)
    place = session_place(arguments.session_dir)
    act: Callable[[Namespace, Place], int] = arguments.act
    return act(arguments, place)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="ludolf sessions", description="Look after stored sessions.")
    parser.add_argument("--session-dir", metavar="DIR", help="where they are kept")
    parser.set_defaults(act=_list, all=False, json=False, limit=None)
    words = parser.add_subparsers(title="what to do", metavar="COMMAND")

    def word(name: str, act: Callable[[Namespace, Place], int], about: str) -> ArgumentParser:
        made = words.add_parser(name, help=about, description=about)
        made.set_defaults(act=act)
        return made

    made = word("list", _list, "list them, the last used first (the default)")
    made.add_argument("--limit", type=int, metavar="N", help="at most so many")
    _add_scope(made)
    made = word("find", _find, "search the text of all messages, tool calls and outputs")
    made.add_argument("text")
    _add_scope(made)
    made = word("show", _show, "print a conversation")
    made.add_argument("session", help=SESSION_NAMES)
    made.add_argument("--json", action="store_true", help="its messages as JSON lines")
    made = word("rename", _rename, "give a session a name")
    made.add_argument("session", help=SESSION_NAMES)
    made.add_argument("name")
    made = word("delete", _delete, "move sessions to the trash folder")
    made.add_argument("sessions", nargs="+", metavar="session", help=SESSION_NAMES)
    add_export(word("export", export, "write a session as an HTML page, or as a file of its own"))
    made = word("import", _import, "copy session files to where those of this folder are kept")
    made.add_argument("files", nargs="+", metavar="file", type=Path)
    return parser


def add_export(parser: ArgumentParser) -> None:
    """What `export` takes, also when it is a word of its own."""
    parser.add_argument("session", help=SESSION_NAMES)
    parser.add_argument("file", nargs="?", help="default: a name of its own in the current folder")
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="its active branch as a session file; so is a FILE that ends in .jsonl",
    )


def _add_scope(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="those of all folders, not just this")
    parser.add_argument("--json", action="store_true", help="as JSON lines, for scripts")


SESSION_NAMES = "a path, an id or its beginning, or `last`"


def session_place(session_dir: str | None) -> Place:
    """Where the sessions of the current folder are."""
    cwd = current_folder()
    home = find_home(cwd)
    custom = (cwd / expand(session_dir)).absolute() if session_dir else session_dir_override()
    return Place(agent_dir=home.agent, cwd=str(cwd), custom=custom)


def locate(place: Place, wanted: str) -> Path:
    """The file of a session, also of another project.

    Raises:
        CommandError: there is none.
    """
    if wanted == "last":
        newest = latest(place)
        if newest is None:
            raise CommandError("There is no session of this folder yet.")
        return newest
    try:
        path = find(place, wanted)
    except SessionElsewhere as elsewhere:
        path = elsewhere.path
    if not path.is_file():
        raise CommandError(f"File not found: {wanted}")
    return path


# ---------------------------------------------------------------- many


def _list(arguments: Namespace, place: Place) -> int:
    records = list_sessions(place, everywhere=arguments.all)[: arguments.limit]
    if arguments.json:
        _lines(records)
    elif records:
        say(_table(records, arguments.all))
    else:
        more = "" if arguments.all else " of this folder; --all lists those of all folders"
        sys.stderr.write(f"No sessions{more}.\n")
    return 0


def _table(records: Sequence[SessionRecord], everywhere: bool) -> str:
    heads = ["id", "last used", "messages", *(["folder"] if everywhere else []), "name"]
    rows = [heads, *(_row(record, everywhere) for record in records)]
    room = columns()
    taken = sum(max(len(row[at]) for row in rows) + 2 for at in range(len(heads) - 1))
    for row in rows:
        row[-1] = one_line(row[-1], max(20, room - taken))
    return table(rows)


def _row(record: SessionRecord, everywhere: bool) -> list[str]:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.modified / 1000))
    folder = [one_line(record.cwd, 40)] if everywhere else []
    return [
        one_line(record.id, 36),
        used,
        str(record.message_count),
        *folder,
        record.name or record.first_message,
    ]


def _find(arguments: Namespace, place: Place) -> int:
    found = [
        Found(session=record, hits=hits)
        for record in list_sessions(place, everywhere=arguments.all)
        if (hits := tuple(search(Path(record.path), arguments.text)))
    ]
    if arguments.json:
        _lines(found)
        return 0
    for each in found:
        say(_found(each))
    if not found:
        sys.stderr.write(f'No session holds "{plain(arguments.text)}".\n')
    return 0 if found else 1


def _found(found: Found) -> str:
    record, room = found.session, columns()
    title = one_line(record.name or record.first_message, max(20, room - 38))
    lines = [f"{one_line(record.id, 36)}  {title}"]
    lines += [
        f"    {hit.role}: {one_line(hit.excerpt, room - 8 - len(hit.role))}"
        for hit in found.hits[:5]
    ]
    if len(found.hits) > 5:
        lines.append(f"    and {len(found.hits) - 5} more")
    return "\n".join(lines) + "\n"


def _lines(values: Sequence[Any]) -> None:
    for value in values:
        sys.stdout.write(dumps(value).decode() + "\n")


# ---------------------------------------------------------------- one


def _open(arguments: Namespace, place: Place) -> Session:
    path = locate(place, arguments.session)
    return open_session(path, place.cwd, warn_on_stderr, write=False)


def _show(arguments: Namespace, place: Place) -> int:
    session = _open(arguments, place)
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
    text = plain(spoken_text(message)).strip()
    if isinstance(message, AssistantMessage) and message.error_message:
        text += f"\n({message.stop_reason}: {plain(message.error_message)})"
    return f"## {plain(who)}\n{text}\n"


def _rename(arguments: Namespace, place: Place) -> int:
    rename(place, str(locate(place, arguments.session)), arguments.name, warn_on_stderr)
    return 0


def _delete(arguments: Namespace, place: Place) -> int:
    for wanted in arguments.sessions:
        kept = trash(place, str(locate(place, wanted)), warn_on_stderr)
        say(f"Moved to {kept}")
    return 0


def _import(arguments: Namespace, place: Place) -> int:
    from ludolf.session.branching import import_file

    for file in arguments.files:
        try:
            say(f"Imported as {import_file(file.expanduser(), place.folder)}")
        except OSError as error:
            raise CommandError(f"Cannot import {file}: {error.strerror}") from error
    return 0


def export(arguments: Namespace, place: Place) -> int:
    """Write the page or the file, and say where.

    Raises:
        CommandError: there is no such session, or the page cannot be written.
    """
    from ludolf.cli.progress import working
    from ludolf.page import export_html
    from ludolf.session.branching import export_jsonl

    target = Path(arguments.file).expanduser() if arguments.file else None
    with working("Loading the session"):
        session = _open(arguments, place)
    if arguments.jsonl or (target is not None and target.suffix == ".jsonl"):
        say(f"Exported to: {export_jsonl(session, target, overwrite=arguments.force)}")
        return 0
    with working("Writing the page") as on_progress:
        path = export_html(session, target, overwrite=arguments.force, on_progress=on_progress)
    say(f"Exported to: {path}")
    return 0
