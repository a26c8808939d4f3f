"""Completion scripts for bash, zsh and fish, made from the options of each command.

A completion is a list of words, or `@files`, `@folders`, or `@KIND` for names that the script asks
for with `ludolf completion --names KIND`.
"""

import re
from contextlib import redirect_stdout
from io import StringIO

import msgspec

from ludolf.ai.messages import THINKING_LEVELS
from ludolf.cli import subcommands
from ludolf.config.settings.approval_rules import MODES as APPROVAL_MODES
from ludolf.config.settings.arguments import SWITCHES, VALUES
from ludolf.config.settings.safety_settings import MODES as SANDBOX_MODES
from ludolf.protocol.dialects import NAMES as DIALECTS

# Values of flags; a flag with a value that is not here completes to nothing.
FLAG_VALUES: dict[str, str] = {
    "--mode": "text json rpc acp",
    "--provider": "@providers",
    "--model": "@models",
    "--models": "@models",
    "--thinking": " ".join(THINKING_LEVELS),
    "--session": "@sessions",
    "--fork": "@sessions",
    "--export": "@files",
    "--session-dir": "@folders",
    "--dir": "@folders",
    "--tools": "read bash edit write grep find ls",
    "--exclude-tools": "read bash edit write grep find ls",
    "--extension": "@files",
    "-e": "@files",
    "--skill": "@files",
    "--prompt-template": "@files",
    "--mcp-config": "@files",
    "--system-prompt": "@files",
    "--append-system-prompt": "@files",
    "--approval": " ".join(APPROVAL_MODES),
    "--sandbox": " ".join(SANDBOX_MODES),
    "--sandbox-network": "on off",
    "--rpc-dialect": " ".join(DIALECTS),
    "--on-eof": "detach abort",
    "--record": "@files",
    "--replay": "@files",
}
# Arguments of commands that are not flags.
ARGUMENTS: dict[str, str] = {
    "auth login": "@providers",
    "auth logout": "@providers",
    "auth status": "@providers",
    "export": "@sessions",
    "mcp get": "@mcp",
    "mcp login": "@mcp",
    "mcp logout": "@mcp",
    "mcp check": "@mcp",
    "mcp remove": "@mcp",
    "models default": "@models",
    "models refresh": "@providers",
    "models show": "@models",
    "sessions delete": "@sessions",
    "sessions export": "@sessions",
    "sessions import": "@files",
    "sessions rename": "@sessions",
    "sessions show": "@sessions",
    "settings get": "@settings",
    "settings set": "@settings",
    "settings unset": "@settings",
    "trust": "@folders",
    "view": "@sessions",
}
_OPTION = re.compile(r"^  (-\S.*?)(?: {2,}|$)", re.MULTILINE)
_FLAG = re.compile(r"(?<!\S)--?[a-z][\w-]*")
_CHOICES = re.compile(r"(--[\w-]+) \{([^}]*)\}")
_POSITIONAL = re.compile(r"^  \{([^}]*)\}", re.MULTILINE)
_COMMAND = re.compile(r"^    ([a-z][\w-]*)(?: {2,}|$)", re.MULTILINE)


class Completions(msgspec.Struct, frozen=True):
    """Completions by place: `words` by command (`auth login`), `values` by flag."""

    words: dict[str, str]
    values: dict[str, str]


def completions() -> Completions:
    """Return all completions, read from the option tables and from the help of each command."""
    commands = subcommands.names()
    options = sorted({*SWITCHES, *VALUES, "-p", "--print", "--list-models"})
    words = {"": " ".join((*commands, *options))}
    values = {**dict.fromkeys(VALUES, ""), **FLAG_VALUES, "--list-models": "@models"}
    for name in commands:
        _add(name, words, values)
    return Completions(words, values)


def script(shell: str) -> str:
    """Return the script of a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](completions())


def _add(command: str, words: dict[str, str], values: dict[str, str]) -> None:
    """Add a command and the commands in it, from their help texts."""
    text = _help_of(command)
    inner = _COMMAND.findall(text) if " " not in command else []
    flags = [flag for option in _OPTION.findall(text) for flag in _FLAG.findall(option)]
    chosen = [choice for group in _POSITIONAL.findall(text) for choice in group.split(",")]
    more = [ARGUMENTS[command]] if command in ARGUMENTS else []
    words[command] = " ".join((*more, *inner, *chosen, *sorted(set(flags))))
    for option in _OPTION.findall(text):
        takes_value = " " in option.rpartition(", ")[2]
        for flag in _FLAG.findall(option):
            if takes_value and flag not in values:
                values[flag] = ""
    for flag, choices in _CHOICES.findall(text):
        values[flag] = choices.replace(",", " ")
    for name in inner:
        _add(f"{command} {name}", words, values)


def _help_of(command: str) -> str:
    name, *rest = command.split()
    with redirect_stdout(StringIO()) as shown:
        subcommands.run(name, (*rest, "-h"))
    return shown.getvalue()


# ---------------------------------------------------------------- bash

_BASH = r"""# Completion of ludolf for bash, made by `ludolf completion bash`.
_ludolf() {
    local line="${COMP_LINE:0:COMP_POINT}" cur="" prev="" context="" given="" found="" word sign
    local -a parts
    read -ra parts <<< "$line"
    local count=${#parts[@]}
    if [[ $line != *[[:space:]] ]]; then
        count=$((count - 1))
        cur="${parts[count]}"
    fi
    prev="${parts[count - 1]}"
    local whole="$cur"
    if [[ $cur == --*=* ]]; then
        prev="${cur%%=*}"
        cur="${cur#*=}"
    fi
    ((count > 2)) && given="${parts[1]} ${parts[2]}"
    case "$given" in
@PAIRS@
    esac
    if [[ -z $context ]] && ((count > 1)); then
        case "${parts[1]}" in
@SINGLES@
        esac
    fi
    case "$prev" in
@VALUES@
        *)
            case "$context" in
@WORDS@
            esac
            ;;
    esac
    if [[ $context == 'settings set' ]] && ((count == 4)); then
        found="$(ludolf completion --values "${parts[3]}" 2>/dev/null </dev/null)"
    fi
    COMPREPLY=()
    while IFS= read -r word; do
        [[ -n $word && $word == "$cur"* ]] && COMPREPLY+=("$word")
    done < <(_ludolf_names "$found" "$cur")
    # bash replaces only the text after the last of these signs.
    for sign in : @ =; do
        if [[ $COMP_WORDBREAKS == *"$sign"* && $cur == *"$sign"* ]]; then
            local before="${cur%"${cur##*"$sign"}"}"
            COMPREPLY=("${COMPREPLY[@]#"$before"}")
            cur="${cur#"$before"}"
        fi
    done
    if [[ $whole == --*=* && $COMP_WORDBREAKS != *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]/#/${whole%%=*}=}")
    fi
    [[ $found == *@files* || $found == *@folders* ]] && compopt -o filenames 2>/dev/null
    return 0
}
_ludolf_names() {
    local name
    for name in $1; do
        case "$name" in
            @files) compgen -f -- "$2" ;;
            @folders) compgen -d -- "$2" ;;
            @*) ludolf completion --names "${name#@}" 2>/dev/null </dev/null ;;
            *) printf '%s\n' "$name" ;;
        esac
    done
}
complete -o bashdefault -o default -F _ludolf ludolf
"""


def _bash(table: Completions) -> str:
    return _filled(_BASH, _cases(table))


# ---------------------------------------------------------------- zsh

_ZSH = r"""#compdef ludolf
# Completion of ludolf for zsh, made by `ludolf completion zsh`.
_ludolf() {
    local cur="${words[CURRENT]}" prev="${words[CURRENT-1]}" context="" given="" found="" name
    if [[ $cur == --*=* ]]; then
        prev="${cur%%=*}"
        compset -P '*='
    fi
    (( CURRENT > 3 )) && given="${words[2]} ${words[3]}"
    case "$given" in
@PAIRS@
    esac
    if [[ -z $context ]] && (( CURRENT > 2 )); then
        case "${words[2]}" in
@SINGLES@
        esac
    fi
    case "$prev" in
@VALUES@
        *)
            case "$context" in
@WORDS@
            esac
            ;;
    esac
    for name in ${=found}; do
        case "$name" in
            @files) _files ;;
            @folders) _files -/ ;;
            @*) compadd -- ${(f)"$(ludolf completion --names ${name#@} 2>/dev/null </dev/null)"} ;;
            *) compadd -- "$name" ;;
        esac
    done
    [[ -n $found ]] || _files
}
if [[ $funcstack[1] == _ludolf ]]; then
    _ludolf "$@"
else
    compdef _ludolf ludolf
fi
"""


def _zsh(table: Completions) -> str:
    return _filled(_ZSH, _cases(table))


# ---------------------------------------------------------------- fish

_FISH = r"""# Completion of ludolf for fish, made by `ludolf completion fish`.
function __ludolf_complete
    set -l parts (commandline -opc)
    set -l cur (commandline -ct)
    set -l prev $parts[-1]
    set -l before ""
    set -l context ""
    set -l found ""
    if string match -q -- '--*=*' "$cur"
        set prev (string replace -r '=.*' '' -- "$cur")
        set before "$prev="
        set cur (string replace -r '^[^=]*=' '' -- "$cur")
    end
    switch "$parts[2] $parts[3]"
@PAIRS@
        case '*'
            switch "$parts[2]"
@SINGLES@
            end
    end
    switch "$prev"
@VALUES@
        case '*'
            switch "$context"
@WORDS@
            end
    end
    test -n "$found"; or set found @files
    set -l names
    for name in (string split -n ' ' -- "$found")
        switch "$name"
            case @files
                set -a names (__fish_complete_path "$cur")
            case @folders
                set -a names (__fish_complete_directories "$cur")
            case '@*'
                set -l kind (string sub -s 2 -- "$name")
                set -a names (ludolf completion --names $kind 2>/dev/null </dev/null)
            case '*'
                set -a names "$name"
        end
    end
    printf '%s\n' "$before"$names
end
complete -c ludolf -f -a '(__ludolf_complete)'
"""


def _fish(table: Completions) -> str:
    pairs, singles = _contexts(table)

    def case(depth: int, word: str, name: str, value: str) -> list[str]:
        space = " " * 4 * depth
        return [f"{space}case {_q(word)}", f"{space}    set {name} {_q(value)}"]

    parts = {
        "PAIRS": [line for one in pairs for line in case(2, one, "context", one)],
        "SINGLES": [line for one in singles for line in case(4, one, "context", one)],
        "VALUES": [line for flag, w in _values(table) for line in case(2, flag, "found", w)],
        "WORDS": [line for one, w in _words(table) for line in case(4, one, "found", w)],
    }
    return _filled(_FISH, parts)


# ---------------------------------------------------------------- all shells


def _cases(table: Completions) -> dict[str, list[str]]:
    """Return the cases of bash and zsh."""
    pairs, singles = _contexts(table)
    return {
        "PAIRS": [f"        ({_q(one)}) context={_q(one)} ;;" for one in pairs],
        "SINGLES": [f"            ({_q(one)}) context={_q(one)} ;;" for one in singles],
        "VALUES": [f"        ({flag}) found={_q(words)} ;;" for flag, words in _values(table)],
        "WORDS": [f"                ({_q(one)}) found={_q(w)} ;;" for one, w in _words(table)],
    }


def _contexts(table: Completions) -> tuple[list[str], list[str]]:
    """Return the commands of two words, and those of one."""
    pairs = [name for name in table.words if " " in name]
    return pairs, [name for name in table.words if name and " " not in name]


def _values(table: Completions) -> list[tuple[str, str]]:
    return sorted(table.values.items())


def _words(table: Completions) -> list[tuple[str, str]]:
    return sorted(table.words.items())


def _q(text: str) -> str:
    assert "'" not in text and "\\" not in text
    return f"'{text}'"


def _filled(text: str, parts: dict[str, list[str]]) -> str:
    for name, lines in parts.items():
        text = text.replace(f"@{name}@", "\n".join(lines))
    return text
