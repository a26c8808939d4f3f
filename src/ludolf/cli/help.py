"""Texts of `--help`."""

# Hosts look for options in this text: one line each, which begins with the long form.
HELP = """\
ludolf: a coding agent for the terminal, and for hosts over stdin and stdout

Usage:
  ludolf [options] [@files...] ["TASK"]           converse at the terminal
  ludolf -p [options] [@files...] [messages...]   print the answer and exit
  ludolf --mode json [options] [messages...]      the same, as JSON events
  ludolf --mode rpc [options]                     serve a host: JSON lines
  ludolf acp [options]                            serve an editor: Agent Client
                                                  Protocol (or --mode acp)
  ludolf serve [options]                          serve many sessions to many
                                                  clients

Commands (`ludolf auth -h`, `ludolf models -h` and so on show details):
  ludolf auth login|logout|status|check ...       manage API keys and logins
  ludolf models list|show|default|refresh ...     list models, set the default
  ludolf sessions list|find|show|rename|delete|import    manage sessions
  ludolf export [SESSION] [FILE]                  write an HTML page, or .jsonl
  ludolf attach [SESSION]                         use a session of a server
  ludolf view [SESSION]                           show sessions in the browser
  ludolf web                                      work in the browser
  ludolf batch TASKS "PROMPT"                     one prompt over many items
  ludolf settings list|get|set|unset|path         show and change settings
  ludolf mcp add|remove|list|check|login|import   manage MCP servers
  ludolf telemetry check|replay                   try OpenTelemetry
  ludolf trust [DIR]                              trust a project's .pi folder
  ludolf doctor                                   check installation and keys
  ludolf completion bash|zsh|fish                 print a completion script
  ludolf schema ...                               JSON Schema or TypeScript
  ludolf install SOURCE                           install a package of pi; also
                                                  list, update, remove, config
  ludolf install-alias NAME                       install as pi, omp, xcsh ...

Text from stdin is put before the first message, with a blank line between
them; </dev/null leaves stdin out. @file adds a text or image file. Each quoted
message is a prompt of its own, and only the last answer is printed; single
words without quotes are one prompt. `--` ends the options. Without a key and a
model, the built-in offline model answers.

With -p at a terminal, the answer is shown as it arrives, with a status line on
stderr. If stdin or stdout is not a terminal, -p is assumed.

Exit codes of -p and --mode json:
  0    there is an answer
  1    error: the request failed, the model gave no answer or none that fits
       --output-schema, a limit was reached, or the arguments are invalid
  2    a command was called with invalid arguments, or there is no task
  130  interrupted with Ctrl-C (143: by SIGTERM, 129: by SIGHUP)

Output
  --print, -p                     print the answer on stdout and exit
  --mode text|json|rpc|acp        format of stdout; acp serves an editor over
                                  the Agent Client Protocol and asks before
                                  files change (--approval says otherwise)
  --output-format text|json       with -p: the answer as text (default), or one
                                  JSON object with answer, usage, cost and
                                  session
  --output-schema FILE            with -p: the answer is JSON that fits the JSON
                                  Schema in FILE
  --rpc-dialect NAME              protocol dialect: pi (default; complete
                                  messages), pi-0.79 (exactly this version),
                                  pi-delta (deltas only), omp, xcsh,
                                  pi-early
  --connect ADDRESS               at a terminal and with --mode rpc: use a
                                  session of a server (`ludolf serve`) at
                                  unix:PATH, ws://HOST:PORT or wss://HOST:PORT
  --on-eof detach|abort           with --mode rpc --connect: at the end of
                                  stdin, let the run continue (default) or stop
                                  it
  --export SESSION [FILE]         write a session as an HTML page and exit

Terminal (see docs/terminal.md)
  --plain                         write lines only, without colours
  --theme NAME, --use-theme NAME  colours: auto, dark, light, or a theme file
  --no-color                      no colours (also: NO_COLOR in the environment)

Model
  --model PATTERN                 provider/id or part of an id; `:LEVEL` sets
                                  the thinking level
  --provider NAME                 search for the model at this provider only
  --models A,B                    models to start with and to cycle through;
                                  globs allowed
  --thinking LEVEL                off, minimal, low, medium, high, xhigh, max
  --api-key KEY                   API key for the model, for this run only
  --list-models [SEARCH]          list the models with credentials and exit

Session
  --continue, -c                  continue the last session of this folder
  --resume, -r                    the same
  --session SESSION               continue a session: a path, an id or its
                                  beginning, or `last`
  --session-id ID                 continue the session with this id, or create
                                  it
  --fork SESSION                  start a new session as a copy of this one
  --session-dir DIR               store sessions in DIR
  --no-session                    do not store the session
  --name, -n NAME                 name the session

Tools
  --tools, -t A,B                 enable only these: read, write, edit, bash,
                                  grep, find, ls; * matches any characters;
                                  tools of MCP servers stay enabled unless the
                                  list names some (mcp__SERVER__*)
  --exclude-tools, -xt A,B        disable these
  --no-builtin-tools, -nbt        disable the built-in tools
  --no-tools, -nt                 disable all tools

Safety (see docs/safety.md)
  --approval MODE                 ask before tools run, at the terminal or the
                                  host: never (default), on-command, on-write,
                                  always, rules (approval.rules in the settings
                                  decide)
  --sandbox MODE                  restrict what tools can write: off (default),
                                  workspace (only this folder is writable),
                                  read-only
  --sandbox-network on|off        network access for commands in the sandbox
                                  (default: on)
  --mask-secrets                  replace secret values with placeholders in
                                  requests to the model
  --approve, -a                   trust the project's .pi folder (settings,
                                  extensions) in this run
  --no-approve, -na               do not trust it

Prompts, skills, extensions
  --system-prompt TEXT|FILE       replace the built-in system prompt
  --append-system-prompt TEXT|FILE
                                  append to the system prompt; repeatable
  --no-context-files, -nc         ignore AGENTS.md and CLAUDE.md
  --skill PATH                    add a skill; repeatable
  --no-skills, -ns                disable all other skills
  --prompt-template PATH          add a prompt template; repeatable
  --no-prompt-templates, -np      disable all other prompt templates
  --extension, -e PATH            load this extension; repeatable
  --no-extensions, -ne            disable all other extensions
  --mcp-config FILE               add the MCP servers of FILE; repeatable
  --no-mcp                        use no MCP server of a file

Limits per prompt
  --max-turns N                   stop the run after N model responses
  --max-tokens N                  stop the run after N tokens
  --max-cost USD                  stop the run when it has cost this much

Tests without a model server
  --record FILE                   record the model traffic in a new file,
                                  without keys
  --replay FILE                   answer from a recording; needs no key and no
                                  network
  --replay-strict                 fail if a request differs from the recording
  --replay-speed N                1 replays with the recorded pauses (default:
                                  no pauses)

Other
  --telemetry                     report the run to the OpenTelemetry collector
                                  of the settings (see docs/telemetry.md)
  --offline                       no network access except to the model
  --help, -h                      show this text and exit
  --version, -v                   show the version and exit

Accepted for compatibility, no effect: --no-themes, --tui-mode, --verbose.

Environment
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, keys of other providers
  LUDOLF_DIR                      folder of settings, keys, models and sessions
                                  (default: ~/.pi/agent)
  LUDOLF_CODING_AGENT_SESSION_DIR folder of sessions
  LUDOLF_RPC_DIALECT              sets the protocol dialect
  LUDOLF_CONNECT                  address of a server, as --connect
  LUDOLF_OFFLINE_MODEL=0          disable the built-in model: a missing model or
                                  key is an error
  LUDOLF_LOCAL_SERVERS            addresses of local model servers; 0 disables
                                  the search
  OTEL_EXPORTER_OTLP_ENDPOINT     collector for traces, metrics and logs; needs
                                  the extra ludolf[otel]
  LUDOLF_SCRIPT                   script that the built-in model ludolf/scripted
                                  plays
PI_... variables of pi work too; a LUDOLF_... variable of the same name takes
precedence.

Examples
  ludolf -p "what is in this folder?"
  git diff | ludolf -p "review this change"
  ludolf --model anthropic/claude-sonnet-5:high -p @notes.md "make issues of it"
  ludolf --model ollama/qwen3:8b -p "explain this error: ..."
  echo '{"type":"get_state"}' | ludolf --mode rpc
The end of stdin ends the RPC mode and stops a running prompt: a host keeps
stdin open until it has received agent_settled.
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
