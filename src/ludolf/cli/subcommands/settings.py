"""`ludolf settings`: list, show, change and remove settings."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ludolf.base import CommandError, ConfigError, Value
from ludolf.cli.terminal import say, say_json
from ludolf.config.settings.files import read_object, replace_text
from ludolf.config.settings.home import OWN, Home, current_folder, find_home, reader_of
from ludolf.config.settings.json_edit import with_value, without
from ludolf.config.settings.lock import settings_lock
from ludolf.config.settings.reference import (
    Setting,
    UnknownSetting,
    find_setting,
    json_text,
    settings_table,
)
from ludolf.config.settings.settings import SettingsFiles
from ludolf.config.settings.trust import save_decision, trust_state, trusted_settings


class SettingRecord(Value):
    """One setting with its value and the file that decides it."""

    key: str
    type: str
    default: Any
    value: Any
    source: str
    help: str
    has_effect: bool
    user_only: bool
    precedence: tuple[str, ...]


def run(words: Sequence[str]) -> int:
    """Run `ludolf settings WORDS`; returns the exit code.

    Raises:
        LudolfError: the key or the value is invalid, or the file cannot be changed.
    """
    if words and words[0] in ("--json", "--project"):
        words = ("list", *words)
    arguments = _parser().parse_args(words)
    act: Callable[[Home, Namespace], int] = arguments.act
    return act(find_home(current_folder(), os.environ), arguments)


def _parser() -> ArgumentParser:
    about = "List, show, change and remove settings."
    parser = ArgumentParser(prog="ludolf settings", allow_abbrev=False, description=about)
    parser.set_defaults(act=_list, search=None, project=False, json=False)
    commands = parser.add_subparsers(metavar="COMMAND", help="default: list")

    def add(name: str, act: Callable[[Home, Namespace], int], about: str) -> ArgumentParser:
        command = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        command.set_defaults(act=act)
        command.add_argument("--project", action="store_true", help="use the file of the project")
        return command

    listing = add("list", _list, "list all settings with type, value, source and help")
    listing.add_argument("search", nargs="?", metavar="SEARCH", help="part of a key or its help")
    get = add("get", _get, "print the value of a setting (exit code 1 if it has none)")
    for each in (listing, get):
        each.add_argument("--json", action="store_true", help="print JSON, for scripts")
    change = add("set", _set, "check a value and write it to the file")
    remove = add("unset", _unset, "remove a setting from the file")
    for each in (get, change, remove):
        each.add_argument("key", metavar="KEY", help="for example compaction.enabled")
    change.add_argument("value", metavar="VALUE", help="JSON, plain text, or a,b for a list")
    add("path", _path, "print the path of the file")
    return parser


# ---------------------------------------------------------------- reading


def _list(home: Home, arguments: Namespace) -> int:
    files = _files(home, arguments)
    wanted = (arguments.search or "").lower()
    found = [one for one in settings_table() if wanted in f"{one.key} {one.help}".lower()]
    for setting in found:
        record = _record(files, setting)
        if arguments.json:
            say_json(record)
        else:
            say(_lines(record))
    if not found:
        sys.stderr.write(f'No setting matches "{arguments.search}".\n')
    return 0


def _get(home: Home, arguments: Namespace) -> int:
    setting = find_setting(arguments.key)
    _warn_without_effect(setting)
    record = _record(_files(home, arguments), setting)
    if arguments.json:
        say_json(record)
        return 0
    if record.value is None:
        return 1
    say(record.value if isinstance(record.value, str) else json_text(record.value))
    return 0


def _path(home: Home, arguments: Namespace) -> int:
    say(str(_file(home, arguments)))
    return 0


def _warn_without_effect(setting: Setting) -> None:
    if not setting.has_effect:
        text = f"Warning: {setting.key} is a setting of pi and has no effect in Ludolf.\n"
        sys.stderr.write(text)


def _files(home: Home, arguments: Namespace) -> SettingsFiles:
    """Return the settings in effect, or with --project those of its file only."""
    if arguments.project:
        raw = _read(home, home.project_settings_file)
        return SettingsFiles(home, given=raw)
    try:
        files = trusted_settings(home)
    except ConfigError as error:
        sys.stderr.write(f"Warning: {home.cwd} is not trusted: {error}\n")
        files = SettingsFiles(home)
    for text in (*files.warnings, *files.doubts):
        sys.stderr.write(f"Warning: {text}\n")
    if not files.trusted and home.project_settings_file.is_file():
        sys.stderr.write(
            f"Warning: {home.project_settings_file} is ignored, since the folder is not trusted. "
            "Trust it with `ludolf trust`.\n"
        )
    return files


def _record(files: SettingsFiles, setting: Setting) -> SettingRecord:
    stated = files.stated(setting.path)
    source, value = stated or ("default", setting.default)
    if stated and files.given is not None:
        source = "project"
    return SettingRecord(
        key=setting.key,
        type=setting.type_text,
        default=setting.default,
        value=value,
        source=source,
        help=setting.help,
        has_effect=setting.has_effect,
        user_only=setting.user_only,
        precedence=setting.precedence,
    )


def _lines(record: SettingRecord) -> str:
    source = record.source
    if source != "default":
        source += f"; default: {_shown(record.default)}"
    kind = record.type[0].upper() + record.type[1:]
    text = f"{record.key} = {_shown(record.value)}  ({source})\n    {kind}. {record.help}"
    if not record.has_effect:
        text += " Setting of pi: no effect in Ludolf."
    return text


def _shown(value: Any) -> str:
    return "unset" if value is None else json_text(value)


# ---------------------------------------------------------------- writing


def _set(home: Home, arguments: Namespace) -> int:
    setting = find_setting(arguments.key)
    value = setting.read(arguments.value)
    if arguments.project and setting.user_only:
        raise CommandError(f"{setting.key} has no effect in a project. Leave out --project.")
    _warn_without_effect(setting)
    path = _file(home, arguments)
    _change(home, path, lambda text: with_value(text, setting.path, value))
    say(f"{setting.key} = {json_text(value)}  ({path})")
    return 0


def _unset(home: Home, arguments: Namespace) -> int:
    key, path = arguments.key, _file(home, arguments)
    names, unknown = tuple(key.split(".")), None
    try:
        names = find_setting(key).path
    except UnknownSetting as error:  # a misspelt key, or one of pi, may be in the file
        unknown = error
    if _change(home, path, lambda text: without(text, names)):
        say(f"Removed {key} from {path}")
        return 0
    if unknown is not None:
        raise unknown
    sys.stderr.write(f"{key} is not set in {path}.\n")
    return 1


def _file(home: Home, arguments: Namespace) -> Path:
    return home.project_settings_file if arguments.project else home.settings_file


def _read(home: Home, path: Path) -> dict[str, Any]:
    own = path == home.settings_file
    try:
        return read_object(path, reader=None if own else reader_of(home, home.cwd))
    except ConfigError as error:
        raise CommandError(f"{path} cannot be used: {error}. Correct it first.") from error


def _change(home: Home, path: Path, edit: Callable[[str], str]) -> bool:
    """Change the file under its lock; return whether the text differs.

    A project that is trusted stays so, since its user made this change.
    """
    own = path == home.settings_file
    was_trusted = not own and trust_state(home) == "trusted"
    try:
        path.parent.mkdir(mode=0o700 if own else 0o777, parents=True, exist_ok=True)
        with settings_lock(path) as lock:
            _read(home, path)
            reader = OWN if own else reader_of(home, home.cwd)
            old = reader.text(path) or ""
            new = edit(old)
            lock.check()
            if new != old:
                replace_text(path, new)
                if not own and not old:
                    os.chmod(path, 0o644)
        if was_trusted and new != old:
            save_decision(home, trusted=True)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error
    if not own and not trusted_settings(home).trusted:
        sys.stderr.write(f"Warning: {home.cwd} is not trusted. Trust it with `ludolf trust`.\n")
    return new != old
