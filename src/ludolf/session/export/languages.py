"""What the highlighter knows of languages: their words, comments and strings, as data."""

import re
from functools import cache

import msgspec

_DOUBLE = r'"(?:[^"\\\n]|\\.)*+"?'
_SINGLE = r"'(?:[^'\\\n]|\\.)*+'?"
_BACKTICK = r"`(?:[^`\\]|\\[\s\S])*+`?"
_TRIPLE = r'(?:"""|\'\'\')'
_SLASHES = r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_HASH = r"#[^\n]*"
_SHELL_HASH = r"(?<![^\s;(])#[^\n]*"
_DASHES = r"--[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_NUMBER = r"0[xXbBoO][0-9a-fA-F_]++|[0-9][0-9_]*+(?:\.[0-9_]++)?(?:[eE][+-]?[0-9]++)?[A-Za-z%]*+"
_WORD = r"[^\W\d][\w$]*+"


class Language(msgspec.Struct, frozen=True):
    """Patterns for the parts of a language. Each must match in linear time, closed or not."""

    keywords: str = ""
    comment: str = ""
    string: str = f"{_DOUBLE}|{_SINGLE}"
    key: str = ""
    word: str = _WORD
    types: bool = True

    def pattern(self) -> re.Pattern[str]:
        parts = (
            ("c", self.comment),
            ("a", self.key),
            ("s", self.string),
            ("n", _NUMBER),
            ("w", self.word),
        )
        return re.compile("|".join(f"(?P<{name}>{part})" for name, part in parts if part))


_PYTHON_STRING = (
    r'[rbfuRBFU]{0,2}(?:"""(?:[^\\]|\\[\s\S])*?(?:"""|\Z)'
    r"|'''(?:[^\\]|\\[\s\S])*?(?:'''|\Z)"
    rf"|{_DOUBLE}|{_SINGLE})"
)
_PYTHON = Language(
    "False None True and as assert async await break case class continue def del elif else "
    "except finally for from global if import in is lambda match nonlocal not or pass raise "
    "return self try while with yield",
    _HASH,
    _PYTHON_STRING,
    r"@[\w.]++",
)
_JAVASCRIPT = Language(
    "abstract any as async await boolean break case catch class const constructor continue "
    "debugger declare default delete do else enum export extends false finally for from "
    "function get if implements import in instanceof interface keyof let namespace never new "
    "null number of private protected public readonly return set static string super switch "
    "this throw true try type typeof undefined unknown var void while yield",
    _SLASHES,
    f"{_DOUBLE}|{_SINGLE}|{_BACKTICK}",
    r"@\w++",
)
_C = Language(
    "alignas auto bool break case catch char class const constexpr continue default delete do "
    "double else enum explicit extern false float for friend goto if inline int long namespace "
    "new noexcept nullptr operator private protected public register return short signed sizeof "
    "static struct switch template this throw true try typedef typename union unsigned using "
    "virtual void volatile while size_t NULL override final",
    _SLASHES,
    key=r"(?<![^\n])[ \t]*+#[ \t]*+[a-z]++",
)
_JAVA = Language(
    "abstract async await base boolean break byte case catch char class companion const "
    "continue data default do double else enum extends false final finally float for foreach "
    "fun get if implements import in instanceof int interface internal is lateinit let lock "
    "long namespace native new null object open operator out override package private protected "
    "public readonly record ref return sealed set short static string struct super suspend "
    "switch synchronized this throw throws true try typealias using val var virtual void "
    "volatile when where while yield",
    _SLASHES,
    key=r"@\w++",
)
_GO = Language(
    "any bool break byte case chan const continue default defer else error fallthrough false "
    "float64 for func go goto if import int int64 interface map make nil package range return "
    "rune select string struct switch true type uint var",
    _SLASHES,
    f"{_DOUBLE}|{_SINGLE}|`[^`]*+`?",
)
# A lifetime looks like the start of a character, so only whole characters count.
_RUST = Language(
    "as async await bool box break const continue crate dyn else enum extern false fn for i32 "
    "i64 if impl in let loop match mod move mut pub ref return self Self static str struct "
    "super trait true type u8 u32 u64 unsafe use usize where while",
    _SLASHES,
    rf"b?{_DOUBLE}|'(?:[^'\\\n]|\\.)'",
    r"#!?\[[^\]\n]{0,200}\]",
)
_SWIFT = Language(
    "actor as associatedtype async await break case catch class continue default defer deinit "
    "do else enum extension false fileprivate for func guard if import in init inout internal "
    "is let nil override private protocol public repeat return self Self static struct super "
    "switch throw throws true try typealias var where while",
    _SLASHES,
    _DOUBLE,
    r"@\w++",
)
_RUBY = Language(
    "BEGIN END alias and begin break case class def defined? do else elsif end ensure extend "
    "false for if in include module next nil not or private raise redo require rescue retry "
    "return self super then true undef unless until when while yield local function repeat "
    "elseif",
    _HASH,
    key=r":[a-z_]\w*+",
)
_LUA = Language(
    "and break do else elseif end false for function goto if in local nil not or repeat return "
    "then true until while",
    r"--\[\[[\s\S]*?(?:\]\]|\Z)|--[^\n]*",
)
_PHP = Language(
    "abstract and array as break case catch class const continue declare default do echo else "
    "elseif empty extends false final finally fn for foreach function global if implements "
    "include instanceof interface isset list match namespace new null or print private "
    "protected public readonly require return static switch throw trait true try unset use var "
    "while yield",
    f"{_SLASHES}|{_HASH}",
    key=r"\$\w++",
)
_SHELL = Language(
    "alias break case cd continue declare do done echo elif else esac eval exec exit export "
    "false fi for function if in local printf read readonly return set shift source sudo test "
    "then trap true unset until while",
    _SHELL_HASH,
    r'"(?:[^"\\]|\\[\s\S])*+"?' + r"|'[^']*+'?",
    r"\$(?:\w++|\{[^}\n]{0,200}\}|[@#?*$!-])|(?<=\s)--?[A-Za-z][\w-]*+",
    types=False,
)
_SQL = Language(
    "add all alter and as asc begin between by case check column commit constraint count create "
    "cross database default delete desc distinct drop else end except exists false foreign from "
    "full group having if in index inner insert integer into is join key left like limit not "
    "null offset on or order outer primary references returning right rollback select set table "
    "text then transaction true union unique update using values varchar view when where with",
    _DASHES,
    types=False,
)
_JSON = Language(
    "true false null",
    _SLASHES,
    _DOUBLE,
    r'"(?:[^"\\\n]|\\.)*+"(?=\s*+:)',
    types=False,
)
_YAML = Language(
    "true false null yes no on off",
    _SHELL_HASH,
    key=r"(?<![^\n])[ \t]*+(?:- ++)*+[\w.$/-]++(?=:)",
    types=False,
)
_TOML = Language(
    "true false",
    _HASH,
    f"{_TRIPLE}[\\s\\S]*?(?:{_TRIPLE}|\\Z)|{_DOUBLE}|{_SINGLE}",
    r"(?<![^\n])(?:\[[^\]\n]{0,200}\]++|[ \t]*+[\w.-]++(?=[ \t]*+=))",
    types=False,
)
_CSS = Language(
    "important inherit initial none auto var calc",
    r"/\*[\s\S]*?(?:\*/|\Z)",
    key=r"@[\w-]++|--[\w-]++|#[0-9a-fA-F]{3,8}\b|[a-z-]++(?=\s?:)",
    word=r"[A-Za-z_-][\w-]*+",
    types=False,
)
_MARKUP = Language(
    "",
    r"<!--[\s\S]*?(?:-->|\Z)",
    f"(?<==)(?:{_DOUBLE}|{_SINGLE})",
    r"</?[A-Za-z][\w:.-]*+|/?>|<![A-Za-z]++",
    types=False,
)
_DOCKER = Language(
    "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL USER VOLUME "
    "WORKDIR AS",
    _HASH,
    types=False,
)
_MAKE = Language(
    "define else endef endif export ifdef ifeq ifndef ifneq include",
    _HASH,
    key=r"\$[({][^)}\n]{0,200}[)}]|(?<![^\n])[\w./%-]++(?=[ \t]*+:)",
    types=False,
)

_NAMES: dict[str, Language] = {
    "python py pyi python3 starlark bzl": _PYTHON,
    "javascript js jsx mjs cjs typescript ts tsx mts cts vue svelte": _JAVASCRIPT,
    "c h cc cpp cxx hpp c++ objc m mm cuda cu glsl": _C,
    "java kotlin kt kts scala groovy gradle csharp cs c# dart": _JAVA,
    "go golang": _GO,
    "rust rs": _RUST,
    "swift": _SWIFT,
    "ruby rb elixir ex exs crystal julia jl": _RUBY,
    "lua": _LUA,
    "php": _PHP,
    "bash sh shell zsh fish console terminal": _SHELL,
    "sql sqlite postgresql mysql": _SQL,
    "json jsonc json5 jsonl": _JSON,
    "yaml yml": _YAML,
    "toml ini cfg conf properties env editorconfig": _TOML,
    "css scss sass less": _CSS,
    "html htm xml svg xhtml plist xaml": _MARKUP,
    "dockerfile docker containerfile": _DOCKER,
    "makefile make mk": _MAKE,
}


@cache
def _by_name() -> dict[str, Language]:
    return {name: language for names, language in _NAMES.items() for name in names.split()}


@cache
def _compiled(language: Language) -> tuple[re.Pattern[str], frozenset[str], bool]:
    return language.pattern(), frozenset(language.keywords.split()), language.types


def find_language(name: str) -> tuple[re.Pattern[str], frozenset[str], bool] | None:
    """Pattern, keywords, and whether capitalised words are types; None for an unknown language."""
    language = _by_name().get(name.lower().removeprefix("."))
    return _compiled(language) if language is not None else None
