"""Texts of `--help` and of a start without a task."""

HELP = """\
ludolf: a headless coding agent that hosts embed over stdin and stdout

Usage:
  ludolf -p [options] [@files...] [messages...]   print the answer and exit
  ludolf --mode json [options] [messages...]      the same, as JSON events
  ludolf --mode rpc [options]                     serve a host: JSON lines on stdin and stdout
  ludolf auth login|logout|status|check ...       manage API keys and logins
  ludolf models list|show|refresh|schema ...      list models, fetch new ones from providers
  ludolf sessions list|find|show|rename|delete|import    manage stored sessions
  ludolf export SESSION [FILE]                    write a session as an HTML page, or as .jsonl
  ludolf view [SESSION]                           follow a session in the browser
  ludolf schema ...                               print JSON Schema or TypeScript types of frames
  ludolf install-alias NAME                       install Ludolf as pi, omp, xcsh or pi-early
Run `ludolf auth -h`, `ludolf models -h` and so on for details.

Text from stdin is put before the first message. @file adds a text or image file to it.
`--` ends the options. Without a key and a model, the built-in offline model answers.

Output
  -p, --print                     print the answer on stdout and exit
  --mode text|json|rpc            format of stdout
  --rpc-dialect NAME              protocol dialect: pi (default; complete messages), pi-0.79
                                  (exactly this version), pi-delta (deltas only), omp, xcsh,
                                  pi-early
  --export SESSION [FILE]         write a session as an HTML page and exit

Model
  --model PATTERN                 provider/id or part of an id; `:LEVEL` sets the thinking level
  --provider NAME                 search for --model at this provider only
  --models A,B                    models to start with and to cycle through; globs allowed
  --thinking LEVEL                off, minimal, low, medium, high, xhigh, max
  --api-key KEY                   API key for --model, for this run only
  --list-models [SEARCH]          list the models that have credentials and exit

Session
  -c, --continue                  continue the last session of this folder (also -r, --resume)
  --session PATH|ID               continue this session
  --session-id ID                 continue the session with this id, or create it
  --fork PATH|ID                  start a new session as a copy of this one
  --session-dir DIR               store sessions in DIR
  --no-session                    do not store the session
  -n, --name NAME                 name the session

Tools
  -t, --tools A,B                 enable only these: read, write, edit, bash, grep, find, ls
  -xt, --exclude-tools A,B        disable these
  -nbt, --no-builtin-tools        disable the built-in tools
  -nt, --no-tools                 disable all tools

Safety (see docs/safety.md)
  --approval MODE                 ask the host before tools run: never (default), on-command,
                                  on-write, always, rules (approval.rules in the settings decide)
  --sandbox MODE                  restrict what tools can write: off (default), workspace (only
                                  this folder is writable), read-only
  --sandbox-network on|off        network access for commands in the sandbox (default: on)
  --mask-secrets                  replace secret values with placeholders in requests to the model
  -a, --approve                   trust the project's .pi folder (settings, extensions) in this run
  -na, --no-approve               do not trust it

Prompts, skills, extensions
  --system-prompt TEXT|FILE       replace the built-in system prompt
  --append-system-prompt TEXT|FILE  append to the system prompt; repeatable
  -nc, --no-context-files         ignore AGENTS.md and CLAUDE.md
  --skill PATH                    add a skill; repeatable (-ns, --no-skills: disable all others)
  --prompt-template PATH          add a prompt template; repeatable
                                  (-np, --no-prompt-templates: disable all others)
  -e, --extension PATH            load this extension; repeatable
                                  (-ne, --no-extensions: disable all others)

Limits per prompt
  --max-turns N                   stop the run after N model responses
  --max-tokens N                  stop the run after N tokens
  --max-cost USD                  stop the run when it has cost this much

Tests without a model server
  --record FILE                   record the model traffic in a new file, without keys
  --replay FILE                   answer from a recording; needs no key and no network
  --replay-strict                 fail if a request differs from the recorded one
  --replay-speed N                1 replays with the recorded pauses (default: no pauses)

Other
  --offline                       no network access except to the model
  -h, --help                      show this text and exit
  -v, --version                   show the version and exit

Accepted for compatibility, no effect: --theme, --use-theme, --no-themes, --tui-mode, --verbose,
--no-mcp.

Environment
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY and the keys of other providers
  LUDOLF_DIR                      folder of settings, keys, models and sessions
                                  (default: ~/.pi/agent)
  LUDOLF_CODING_AGENT_SESSION_DIR folder of sessions
  LUDOLF_RPC_DIALECT              same as --rpc-dialect
  LUDOLF_OFFLINE_MODEL=0          disable the built-in model: a missing model or key is an error
  LUDOLF_LOCAL_SERVERS            addresses of local model servers; 0 disables the search
  LUDOLF_SCRIPT                   script that the built-in model ludolf/scripted plays
PI_... variables of pi work too; a LUDOLF_... variable of the same name takes precedence.

Examples
  ludolf -p "what is in this folder?"
  git diff | ludolf -p "review this change"
  ludolf --model anthropic/claude-sonnet-5:high -p @notes.md "turn these notes into issues"
  ludolf --model ollama/qwen3:8b -p "explain this error: ..."
  echo '{"type":"get_state"}' | ludolf --mode rpc
"""

NO_TERMINAL = """\
ludolf has no terminal interface. It serves a host program, or answers one prompt and exits.

  ludolf -p "what is in this folder?"   print the answer and exit
  ludolf --mode json "..."              the same, as JSON events
  ludolf --mode rpc                     serve a host over stdin and stdout
  ludolf --help                         list all options
"""

NO_MODELS = """\
No model has credentials. Set a key in the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY,
GEMINI_API_KEY, ...), store one with `ludolf auth login`, or add a provider to {models_file}.
Until then, the built-in model ludolf/offline answers by fixed rules.
"""

NAMELESS = """\
No models of {provider} are listed. Name one with --model {provider}/ID, or fetch the list with
`ludolf models refresh {provider}` (not every provider offers one).
"""
