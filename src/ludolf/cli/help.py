"""The texts of `--help` and of a start without anything to do."""

HELP = """\
ludolf: a headless coding agent that hosts embed over stdin and stdout

Usage:
  ludolf -p [options] [@files...] [messages...]   answer and end
  ludolf --mode json [options] [messages...]      the same, told as JSON events
  ludolf --mode rpc [options]                     serve a host: one JSON object a line, both ways
  ludolf auth login|logout|status|check ...       keys and logins
  ludolf models list|show|refresh|schema ...      models: see them, ask providers for new ones
  ludolf sessions list|find|show|rename|delete|import    look after stored sessions
  ludolf export SESSION [FILE]                    write a session as an HTML page, or as .jsonl
  ludolf view [SESSION]                           watch a session in the browser as it grows
  ludolf schema ...                               JSON Schema of all frames, or TypeScript types
  ludolf install-alias pi|omp|xcsh|pi-early       be started under the name of another program
`ludolf auth -h`, `ludolf models -h` and so on tell more of each.

Text on stdin goes before the first message. @file puts a text or image file into it.
`--` ends the options. Without a key and a model, the built-in offline model answers.

Output
  -p, --print                     answer the messages on stdout and end
  --mode text|json|rpc            what stdout carries
  --rpc-dialect NAME              whose words are spoken: pi (default: whole messages), pi-delta
                                  (pieces only), omp, xcsh, pi-early
  --export SESSION [FILE]         write a session as an HTML page, and end

Model
  --model PATTERN                 provider/id, or a part of an id; `:LEVEL` sets the thinking level
  --provider NAME                 look for --model at this provider only
  --models A,B                    models to start with and to cycle through; globs are welcome
  --thinking LEVEL                off, minimal, low, medium, high, xhigh, max
  --api-key KEY                   the key for --model, for this run only
  --list-models [SEARCH]          show the models that have credentials, and end

Session
  -c, --continue                  go on with the last session of this folder (-r, --resume too)
  --session PATH|ID               go on with this session
  --session-id ID                 go on with the session of this id, or start it
  --fork PATH|ID                  start a new session as a copy of this one
  --session-dir DIR               keep sessions here
  --no-session                    keep none
  -n, --name NAME                 name the session

Tools
  -t, --tools A,B                 only these: read, write, edit, bash, grep, find, ls
  -xt, --exclude-tools A,B        not these
  -nbt, --no-builtin-tools        no built-in ones
  -nt, --no-tools                 none at all

Safety (see docs/safety.md)
  --approval MODE                 ask the host before tools run: never (default), on-write, always,
                                  rules (as approval.rules in the settings say)
  --sandbox MODE                  shut tools in: off (default), workspace (only this folder can be
                                  written to), read-only
  --sandbox-network on|off        whether commands in the sandbox have the network (default: on)
  --mask-secrets                  show placeholders instead of secret values to the model
  -a, --approve                   trust the project's .pi folder (settings, extensions) in this run
  -na, --no-approve               do not

Prompts, skills, extensions
  --system-prompt TEXT|FILE       instead of the built-in system prompt
  --append-system-prompt TEXT|FILE  after it; may be repeated
  -nc, --no-context-files         no AGENTS.md or CLAUDE.md
  --skill PATH                    a skill more; may be repeated (-ns, --no-skills: no others)
  --prompt-template PATH          a template more; may be repeated
                                  (-np, --no-prompt-templates: no others)
  -e, --extension PATH            load this extension; may be repeated
                                  (-ne, --no-extensions: no others)

Limits of one prompt
  --max-turns N                   end the run after N answers of the model
  --max-tokens N                  end it when N tokens are used
  --max-cost USD                  end it when that much is spent

Tests without a model server
  --record FILE                   store the traffic with models in a new file, without keys
  --replay FILE                   answer from such a file: no key, no network
  --replay-strict                 a request that asks something else than recorded is an error
  --replay-speed N                1: with the pauses of the recorded run (default: none of them)

Other
  --offline                       no network but the model's own
  -h, --help                      this text
  -v, --version                   the version

Read and ignored, since there is no terminal interface: --theme, --use-theme, --no-themes,
--tui-mode, --verbose; and --no-mcp, since that is so anyway.

Environment
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY and the keys of other providers
  LUDOLF_DIR                      settings, keys, models and sessions (default ~/.pi/agent)
  LUDOLF_CODING_AGENT_SESSION_DIR where sessions are kept
  LUDOLF_RPC_DIALECT              as --rpc-dialect
  LUDOLF_OFFLINE_MODEL=0          no built-in model: a missing model or key is an error
  LUDOLF_LOCAL_SERVERS            0: look for no model server on this machine; or where to look
  LUDOLF_SCRIPT                   a script that the built-in model ludolf/scripted plays
Every PI_... variable of pi is honoured too; a LUDOLF_... variable of the same name wins.

Examples
  ludolf -p "what is in this folder?"
  git diff | ludolf -p "review this change"
  ludolf --model anthropic/claude-sonnet-5:high -p @notes.md "turn these notes into issues"
  ludolf --model ollama/qwen3:8b -p "explain this error: ..."
  echo '{"type":"get_state"}' | ludolf --mode rpc
"""

NO_TERMINAL = """\
ludolf has no terminal interface: it works for other programs, or answers one question and ends.

  ludolf -p "what is in this folder?"   answer on stdout and end
  ludolf --mode json "..."              the same, told as JSON events
  ludolf --mode rpc                     serve a host over stdin and stdout
  ludolf --help                         all options
"""

NO_MODELS = """\
No model has credentials yet. Set a key in the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY,
GEMINI_API_KEY, ...), store one with `ludolf auth login`, or add a provider to {models_file}.
Without either, the built-in model ludolf/offline answers by fixed rules.
"""

NAMELESS = """\
No model of {provider} is known yet. Name one with --model {provider}/ID, or ask for all with
`ludolf models refresh {provider}` (not every provider has a list).
"""
