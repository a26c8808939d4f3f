"""Fixed texts of the offline model: greeting, help, how to connect a real model."""

GREETING = (
    "Hello! I am the offline demo model of Ludolf. I have no intelligence: I follow a short table "
    'of requests and drive the real tools. Say "help" for the list, or try "what is in this '
    'folder?".'
)

THANKS = "You are welcome."

HELP = """I am the offline demo model of Ludolf. I work without network and without a key, by \
fixed rules. I understand these requests:

- read a file: "read README.md", "show me src/x.py lines 10-20", "read a.txt and b.txt"
- list a folder: "list src", "what is in this folder?"
- search text: "search for TODO in src"
- find files: "find files named *.py in src"
- write a file: "write hello.txt with Hello", or with a fenced block
- edit a file: replace "old" with "new" in notes.txt
- run a command: "run `ls -la`"
- look around: "summarise this project"
- think aloud: "think about how to name this function"

Join requests with "then" to have them done one after another. For anything else, connect a model: \
ask "how do I connect a real model?"."""

CONNECT = """To connect a real model, do one of these:

- A hosted model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY in the environment, or \
store a key or a login with `ludolf auth login`; choose a model with `--model provider/id`.
- A model of this machine: start Ollama, llama.cpp, LM Studio or vLLM. Ludolf finds them \
automatically; choose one of their models with `--model ollama/name`.
- Another server: add it to models.json with its baseUrl and api.
- From a host: send `login` or `set_model`."""

UNKNOWN = f"""I am the offline demo model of Ludolf: I follow a short table of requests and did \
not find yours in it. Say "help" for what I can do.

{CONNECT}"""

TESTS = "Name the command that runs your tests, for example: run `pytest -q`."

NO_REQUEST = 'I see no request in this conversation. Say "help" for what I can do.'

TOO_LONG = "I stop here: this request has taken more turns than my plan allows."


def thought_about(topic: str) -> str:
    return (
        f"I was asked to think about {topic}. What you saw is a thinking block made by rule, so "
        "that a host can show one. I am the offline demo and have no thoughts of my own to add; a "
        "real model would."
    )
