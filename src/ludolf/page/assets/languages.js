// Colouring rules of each language as data: words, comments, strings and keys.
//
// The page and terminals share this file: below the comment it is JSON, and each pattern means the
// same in JavaScript and in Python. `<NAME>` in a pattern stands for one of the parts.
//
// Code may be hostile, so each pattern must match in linear time, closed or not: no two parts that
// repeat can read the same letters, and what opens a comment or a string always matches, at the
// latest at the end of the text.
//
// `types`: capitalised words are types, and keywords are written in small letters only.
// Rust: a lifetime looks like the start of a character, so only whole characters count.

const LANGUAGES = {
  "parts": {
    "END": "(?![\\s\\S])",
    "DOUBLE": "\"[^\"\\\\\\n]*(?:\\\\.[^\"\\\\\\n]*)*\"?",
    "SINGLE": "'[^'\\\\\\n]*(?:\\\\.[^'\\\\\\n]*)*'?",
    "QUOTED": "<DOUBLE>|<SINGLE>",
    "BACKTICK": "`[^`\\\\]*(?:\\\\[\\s\\S][^`\\\\]*)*`?",
    "TRIPLE_DOUBLE": "\"\"\"[^\"\\\\]*(?:(?:\\\\[\\s\\S]|\"(?!\"\"))[^\"\\\\]*)*(?:\"\"\"|\\\\?<END>)",
    "TRIPLE_SINGLE": "'''[^'\\\\]*(?:(?:\\\\[\\s\\S]|'(?!''))[^'\\\\]*)*(?:'''|\\\\?<END>)",
    "STARRED": "/\\*[\\s\\S]*?(?:\\*/|<END>)",
    "SLASHES": "//[^\\n]*|<STARRED>",
    "HASH": "#[^\\n]*",
    "SHELL_HASH": "(?<![^\\s;(])#[^\\n]*",
    "NUMBER": "0[xXbBoO][0-9a-fA-F_]+|[0-9][0-9_]*(?:\\.[0-9_]+)?(?:[eE][+\\-]?[0-9]+)?[A-Za-z%]*"
  },
  "languages": [
    {
      "names": "python py pyi python3 starlark bzl",
      "keywords": [
        "False None True and as assert async await break case class continue def del elif else",
        "except finally for from global if import in is lambda match nonlocal not or pass raise",
        "return self try while with yield"
      ],
      "comment": "<HASH>",
      "key": "@[\\w.]+",
      "string": "[rbfuRBFU]{0,2}(?:<TRIPLE_DOUBLE>|<TRIPLE_SINGLE>|<QUOTED>)",
      "types": true
    },
    {
      "names": "javascript js jsx mjs cjs typescript ts tsx mts cts vue svelte",
      "keywords": [
        "abstract any as async await boolean break case catch class const constructor continue",
        "debugger declare default delete do else enum export extends false finally for from",
        "function get if implements import in instanceof interface keyof let namespace never new",
        "null number of private protected public readonly return set static string super switch",
        "this throw true try type typeof undefined unknown var void while yield"
      ],
      "comment": "<SLASHES>",
      "key": "@\\w+",
      "string": "<QUOTED>|<BACKTICK>",
      "types": true
    },
    {
      "names": "c h cc cpp cxx hpp c++ objc m mm cuda cu glsl",
      "keywords": [
        "alignas auto bool break case catch char class const constexpr continue default delete do",
        "double else enum explicit extern false float for friend goto if inline int long",
        "namespace new noexcept nullptr operator private protected public register return short",
        "signed sizeof static struct switch template this throw true try typedef typename union",
        "unsigned using virtual void volatile while size_t NULL override final"
      ],
      "comment": "<SLASHES>",
      "key": "^[ \\t]*#[ \\t]*[a-z]+",
      "types": true
    },
    {
      "names": "java kotlin kt kts scala groovy gradle csharp cs c# dart",
      "keywords": [
        "abstract async await base boolean break byte case catch char class companion const",
        "continue data default do double else enum extends false final finally float for foreach",
        "fun get if implements import in instanceof int interface internal is lateinit let lock",
        "long namespace native new null object open operator out override package private",
        "protected public readonly record ref return sealed set short static string struct super",
        "suspend switch synchronized this throw throws true try typealias using val var virtual",
        "void volatile when where while yield"
      ],
      "comment": "<SLASHES>",
      "key": "@\\w+",
      "types": true
    },
    {
      "names": "go golang",
      "keywords": [
        "any bool break byte case chan const continue default defer else error fallthrough false",
        "float64 for func go goto if import int int64 interface map make nil package range return",
        "rune select string struct switch true type uint var"
      ],
      "comment": "<SLASHES>",
      "string": "<QUOTED>|`[^`]*`?",
      "types": true
    },
    {
      "names": "rust rs",
      "keywords": [
        "as async await bool box break const continue crate dyn else enum extern false fn for i32",
        "i64 if impl in let loop match mod move mut pub ref return self Self static str struct",
        "super trait true type u8 u32 u64 unsafe use usize where while"
      ],
      "comment": "<SLASHES>",
      "key": "#!?\\[[^\\]\\n]{0,200}\\]",
      "string": "b?<DOUBLE>|'(?:[^'\\\\\\n]|\\\\.)'",
      "types": true
    },
    {
      "names": "swift",
      "keywords": [
        "actor as associatedtype async await break case catch class continue default defer deinit",
        "do else enum extension false fileprivate for func guard if import in init inout internal",
        "is let nil override private protocol public repeat return self Self static struct super",
        "switch throw throws true try typealias var where while"
      ],
      "comment": "<SLASHES>",
      "key": "@\\w+",
      "string": "<DOUBLE>",
      "types": true
    },
    {
      "names": "ruby rb elixir ex exs crystal julia jl",
      "keywords": [
        "BEGIN END alias and begin break case class def defined? do else elsif end ensure extend",
        "false for if in include module next nil not or private raise redo require rescue retry",
        "return self super then true undef unless until when while yield local function repeat",
        "elseif"
      ],
      "comment": "<HASH>",
      "key": ":[a-z_]\\w*",
      "types": true
    },
    {
      "names": "lua",
      "keywords": [
        "and break do else elseif end false for function goto if in local nil not or repeat",
        "return then true until while"
      ],
      "comment": "--\\[\\[[\\s\\S]*?(?:\\]\\]|<END>)|--[^\\n]*",
      "types": true
    },
    {
      "names": "php",
      "keywords": [
        "abstract and array as break case catch class const continue declare default do echo else",
        "elseif empty extends false final finally fn for foreach function global if implements",
        "include instanceof interface isset list match namespace new null or print private",
        "protected public readonly require return static switch throw trait true try unset use",
        "var while yield"
      ],
      "comment": "<SLASHES>|<HASH>",
      "key": "\\$\\w+",
      "types": true
    },
    {
      "names": "bash sh shell zsh fish console terminal",
      "keywords": [
        "alias break case cd continue declare do done echo elif else esac eval exec exit export",
        "false fi for function if in local printf read readonly return set shift source sudo test",
        "then trap true unset until while"
      ],
      "comment": "<SHELL_HASH>",
      "key": "\\$(?:\\w+|\\{[^}\\n]{0,200}\\}|[@#?*$!\\-])|(?<=\\s)--?[A-Za-z][\\w\\-]*",
      "string": "\"[^\"\\\\]*(?:\\\\[\\s\\S][^\"\\\\]*)*\"?|'[^']*'?"
    },
    {
      "names": "sql sqlite postgresql mysql",
      "keywords": [
        "add all alter and as asc begin between by case check column commit constraint count",
        "create cross database default delete desc distinct drop else end except exists false",
        "foreign from full group having if in index inner insert integer into is join key left",
        "like limit not null offset on or order outer primary references returning right rollback",
        "select set table text then transaction true union unique update using values varchar",
        "view when where with"
      ],
      "comment": "--[^\\n]*|<STARRED>"
    },
    {
      "names": "json jsonc json5 jsonl",
      "keywords": [
        "true false null"
      ],
      "comment": "<SLASHES>",
      "key": "\"[^\"\\\\\\n]*(?:\\\\.[^\"\\\\\\n]*)*\"(?=\\s*:)",
      "string": "<DOUBLE>"
    },
    {
      "names": "yaml yml",
      "keywords": [
        "true false null yes no on off"
      ],
      "comment": "<SHELL_HASH>",
      "key": "^[ \\t]*(?:- +)*[\\w.$\\/\\-]+(?=:)"
    },
    {
      "names": "toml ini cfg conf properties env editorconfig",
      "keywords": [
        "true false"
      ],
      "comment": "<HASH>",
      "key": "^(?:\\[[^\\]\\n]{0,200}\\]+|[ \\t]*[\\w.\\-]+(?=[ \\t]*=))",
      "string": "(?:\"\"\"|''')[\\s\\S]*?(?:\"\"\"|'''|<END>)|<QUOTED>"
    },
    {
      "names": "css scss sass less",
      "keywords": [
        "important inherit initial none auto var calc"
      ],
      "comment": "<STARRED>",
      "key": "@[\\w\\-]+|--[\\w\\-]+|#[0-9a-fA-F]{3,8}\\b|[a-z\\-]+(?=\\s?:)",
      "word": "[A-Za-z_\\-][\\w\\-]*"
    },
    {
      "names": "html htm xml svg xhtml plist xaml",
      "keywords": [],
      "comment": "<!-{2}[\\s\\S]*?(?:-{2}>|<END>)",
      "key": "<\\/?[A-Za-z][\\w:.\\-]*|\\/?>|<![A-Za-z]+",
      "string": "(?<==)(?:<QUOTED>)"
    },
    {
      "names": "dockerfile docker containerfile",
      "keywords": [
        "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL USER VOLUME",
        "WORKDIR AS"
      ],
      "comment": "<HASH>"
    },
    {
      "names": "makefile make mk",
      "keywords": [
        "define else endef endif export ifdef ifeq ifndef ifneq include"
      ],
      "comment": "<HASH>",
      "key": "\\$[\\(\\{][^\\)\\}\\n]{0,200}[\\)\\}]|^[\\w.\\/%\\-]+(?=[ \\t]*:)"
    }
  ]
};
