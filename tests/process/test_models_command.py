"""`ludolf models`, through the real program, with servers that list their models."""

import json
import os
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ludolf import __version__
from ludolf.base import loads
from tests.loopback import JSON_BODY, Canned, Loopback
from tests.process.forks import run_forked
from tests.process.harness import WAIT_SECONDS, Lab

SOURCE = Path(__file__).parents[2] / "src"
KEYS = {
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "GEMINI_API_KEY": "key-of-google",
    "GROQ_API_KEY": "key-of-groq",
    "MISTRAL_API_KEY": "key-of-mistral",
    "OPENROUTER_API_KEY": "key-of-openrouter",
}
ROUTED = {
    "id": "maker/new-one",
    "name": "Maker: New One",
    "context_length": 123000,
    "architecture": {"input_modalities": ["text", "image"]},
    "pricing": {"prompt": "0.0000025", "completion": "0.00001", "input_cache_read": "0.00000025"},
    "top_provider": {"max_completion_tokens": 9000},
    "supported_parameters": ["tools", "reasoning"],
}


def page(value: Any, status: int = 200) -> Canned:
    return Canned(status=status, headers=JSON_BODY, chunks=[json.dumps(value).encode()])


class Home:
    """A home of its own, with providers moved to servers of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = folder / ".pi" / "agent"
        self.agent.mkdir(parents=True)
        self.store = self.agent / "models-store.json"

    def configure(self, **providers: Any) -> None:
        (self.agent / "models.json").write_text(json.dumps({"providers": providers}))

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        base = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "LUDOLF_LOCAL_SERVERS": "0",
        }
        env = {**base, **environ}
        done = run_forked(words, str(self.folder), env, b"", 2 * WAIT_SECONDS)
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def show(self, key: str, **environ: str) -> Any:
        done = self.run("models", "show", key, "--json", **environ)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# ---------------------------------------------------------------- refresh


def test_every_kind_of_list_is_read_and_one_failure_stops_no_other(home: Home) -> None:
    gemini = {
        "name": "models/gemini-next",
        "displayName": "Gemini Next",
        "inputTokenLimit": 5000,
        "outputTokenLimit": 500,
        "supportedGenerationMethods": ["generateContent"],
        "thinking": True,
    }
    embedding = {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]}
    mistral = {
        "id": "mistral-next",
        "max_context_length": 7000,
        "capabilities": {"completion_chat": True, "vision": True},
    }
    claude = {"id": "claude-next", "display_name": "Claude Next", "max_input_tokens": 6000}
    servers = {
        "anthropic": Loopback(
            page({"data": [claude], "has_more": True, "last_id": "claude-next"}),
            page({"data": [{"id": "claude-after"}], "has_more": False}),
        ),
        "google": Loopback(page({"models": [gemini, embedding]})),
        "groq": Loopback(page({"error": {"message": "no key-of-groq here"}}, status=401)),
        "mistral": Loopback(page({"data": [mistral]})),
        "openrouter": Loopback(
            page({"data": [ROUTED, {**ROUTED, "id": "plain", "supported_parameters": []}]})
        ),
    }
    with ExitStack() as stack:
        for server in servers.values():
            stack.enter_context(server)
        home.configure(**{name: {"baseUrl": server.url} for name, server in servers.items()})
        done = home.run("models", "refresh", **KEYS)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split(maxsplit=1) for line in lines if line[0] != " "][:-1] == [
        ["anthropic", "2 listed, 2 new"],
        ["google", "1 listed, 1 new"],
        ["openrouter", "1 listed, 1 new"],
        ["groq", "failed: no [redacted] here (401)"],
        ["mistral", "1 listed, 1 new"],
    ]
    assert lines[-1] == f"Stored in {home.store}; used from the next start on."
    assert "  + maker/new-one" in lines
    assert_asked(servers)
    assert_known(home)


@pytest.mark.parametrize("named", [("nvidia",), ()])
def test_a_provider_without_shipped_models_is_asked_for_them(
    home: Home, named: tuple[str, ...]
) -> None:
    key = {"NVIDIA_API_KEY": "key-of-nvidia"}
    before = home.run("models", **key)
    assert "`ludolf models refresh nvidia`" in before.stderr
    with Loopback(page({"data": [{"id": "maker/new-one"}]})) as server:
        home.configure(nvidia={"baseUrl": server.url})
        done = home.run("models", "refresh", *named, **key)
        assert done.returncode == 0, done.stdout
        assert server.requests[0].headers["authorization"] == "Bearer key-of-nvidia"
    (home.agent / "models.json").unlink()
    assert "maker/new-one" in home.run("models", **key).stdout
    known = home.show("nvidia/maker/new-one", **key)
    assert known["baseUrl"] == "https://integrate.api.nvidia.com/v1"
    assert "maker/new-one" in home.run("models", "list", "--all", "nvidia").stdout


def assert_asked(servers: dict[str, Loopback]) -> None:
    asked = {name: server.requests for name, server in servers.items()}
    assert [one.path for one in asked["anthropic"]] == [
        "/v1/models?limit=1000",
        "/v1/models?limit=1000&after_id=claude-next",
    ]
    assert asked["anthropic"][0].headers["x-api-key"] == "key-of-anthropic"
    assert asked["google"][0].path == "/models?pageSize=1000"
    assert asked["google"][0].headers["x-goog-api-key"] == "key-of-google"
    assert asked["mistral"][0].path == "/v1/models"
    assert asked["openrouter"][0].path == "/models"
    assert asked["openrouter"][0].headers["authorization"] == "Bearer key-of-openrouter"


def assert_known(home: Home) -> None:
    routed = home.show("openrouter/maker/new-one", **KEYS)
    assert routed["available"] is True
    assert (routed["name"], routed["contextWindow"], routed["maxTokens"]) == (
        *("Maker: New One", 123000, 9000),
    )
    assert (routed["reasoning"], routed["input"]) == (True, ["text", "image"])
    assert routed["cost"] == {"input": 2.5, "output": 10, "cacheRead": 0.25, "cacheWrite": 0}
    stored = json.loads(home.store.read_text())["ludolf"]
    assert set(stored) == {"anthropic", "google", "openrouter", "mistral"}
    assert stored["google"]["models"] == [
        {
            "name": "Gemini Next",
            "reasoning": True,
            "contextWindow": 5000,
            "maxTokens": 500,
            "id": "gemini-next",
        }
    ]
    assert home.store.stat().st_mode & 0o777 == 0o600


def test_one_provider_can_be_asked_alone_and_other_prices_are_told(home: Home) -> None:
    home.configure(openrouter={"baseUrl": "http://127.0.0.1:9"})
    known = json.loads(
        home.run("models", "list", "--all", "--json", "openrouter").stdout.splitlines()[0]
    )["id"]
    row = {**ROUTED, "id": known, "pricing": {"prompt": "0.5", "completion": "0.6"}}
    with Loopback(page({"data": [row]})) as server:
        home.configure(openrouter={"baseUrl": server.url})
        done = home.run("models", "refresh", "openrouter", **KEYS)
    assert done.returncode == 0
    assert done.stdout.startswith("openrouter  1 listed, 0 new, 1 with new prices\n")
    assert home.show(f"openrouter/{known}")["cost"]["input"] == 500000


def test_a_server_of_ones_own_is_asked_and_what_it_lists_that_cannot_converse_is_left_out(
    home: Home,
) -> None:
    rows = [{"id": "chat-model", "max_model_len": 4096}, {"id": "text-embedding-9"}, 5]
    with Loopback(page({"object": "list", "data": rows})) as server:
        lab = {"baseUrl": f"{server.url}/v1", "api": "openai-completions", "apiKey": "none"}
        home.configure(lab=lab)
        done = home.run("models", "refresh", "lab")
        assert done.stdout.splitlines()[:2] == ["lab  1 listed, 1 new", "  + chat-model"]
        assert server.requests[0].path == "/v1/models"
        shown = home.run("models", "list").stdout.splitlines()
    assert [line.split()[:3] for line in shown[1:]] == [["lab", "chat-model", "4.1K"]]


def test_pi_spells_it_update_models(home: Home) -> None:
    with Loopback(page({"data": [{"id": "new-model"}]})) as server:
        home.configure(groq={"baseUrl": server.url})
        done = home.run("update", "--models", GROQ_API_KEY="k")
    assert done.stdout.splitlines()[:2] == ["groq  1 listed, 1 new", "  + new-model"]


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (("models", "refresh"), {"PI_OFFLINE": "1"}),
        (("models", "refresh", "--offline"), {}),
        (("update", "--models", "--offline"), {}),
    ],
)
def test_offline_nobody_is_asked(
    home: Home, words: tuple[str, ...], environ: dict[str, str]
) -> None:
    with Loopback(page({"data": []})) as server:
        home.configure(groq={"baseUrl": server.url})
        done = home.run(*words, GROQ_API_KEY="k", **environ)
        assert server.requests == []
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Offline: ")
    assert not home.store.exists()


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        ("nobody", 'Unknown provider "nobody"'),
        ("groq", "No credentials for groq"),
        ("amazon-bedrock", "amazon-bedrock offers no list of models"),
    ],
)
def test_a_provider_that_cannot_be_asked_is_named(home: Home, provider: str, told: str) -> None:
    done = home.run("models", "refresh", provider)
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr


def test_without_credentials_there_is_nobody_to_ask(home: Home) -> None:
    done = home.run("models", "refresh")
    assert (done.returncode, done.stdout) == (1, "")
    assert "No provider with credentials" in done.stderr


@pytest.mark.parametrize("answer", [b"<html>no</html>", b'{"hello": 1}'])
def test_an_answer_that_is_no_list_changes_nothing(home: Home, answer: bytes) -> None:
    with Loopback(Canned(headers=JSON_BODY, chunks=[answer])) as server:
        home.configure(groq={"baseUrl": server.url})
        done = home.run("models", "refresh", GROQ_API_KEY="k")
    assert done.returncode == 1
    assert done.stdout.startswith("groq  failed: The answer is not ")
    assert not home.store.exists()


def test_a_web_page_instead_of_a_list_is_one_short_line(home: Home) -> None:
    html = b"<!DOCTYPE html>\n<html><head><title>Not Found</title></head><body>x</body></html>"
    page = Canned(status=404, headers={"Content-Type": "text/html"}, chunks=[html])
    with Loopback(page) as server:
        home.configure(groq={"baseUrl": server.url})
        done = home.run("models", "refresh", GROQ_API_KEY="k")
    assert done.returncode == 1
    assert done.stdout == "groq  failed: the server sent a web page (Not Found) (404)\n"


def test_a_start_asks_nobody_for_lists(home: Home) -> None:
    with Loopback(page({"data": []})) as server:
        home.configure(groq={"baseUrl": server.url})
        home.run("--list-models", GROQ_API_KEY="k")
        home.run("models", "list", "--all", GROQ_API_KEY="k")
        assert server.requests == []


def test_two_refreshes_at_once_both_keep_what_they_heard(home: Home) -> None:
    with (
        Loopback(page({"data": [{"id": "one"}]})) as a,
        Loopback(page({"data": [{"id": "two"}]})) as b,
    ):
        home.configure(groq={"baseUrl": a.url}, deepseek={"baseUrl": b.url})
        keys = {"GROQ_API_KEY": "k", "DEEPSEEK_API_KEY": "k"}
        threads = [
            threading.Thread(target=home.run, args=("models", "refresh", name), kwargs=keys)
            for name in ("groq", "deepseek")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert set(json.loads(home.store.read_text())["ludolf"]) == {"groq", "deepseek"}


# ---------------------------------------------------------------- list, show, schema


def test_list_shows_the_table_of_list_models(home: Home) -> None:
    plain = home.run("--list-models", "oss", GROQ_API_KEY="k")
    assert plain.stdout
    assert home.run("models", "list", "oss", GROQ_API_KEY="k").stdout == plain.stdout
    assert home.run("models", "list", "oss").stdout == ""
    everything = home.run("models", "list", "--all", "oss")
    assert len(everything.stdout.splitlines()) > len(plain.stdout.splitlines())


def test_list_as_json_says_what_is_available(home: Home) -> None:
    done = home.run("models", "list", "--all", "--json", "groq/oss-120", GROQ_API_KEY="k")
    (model,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (model["provider"], model["id"], model["available"]) == (
        *("groq", "openai/gpt-oss-120b", True),
    )


def test_show_tells_all_of_one_model(home: Home) -> None:
    done = home.run("models", "show", "anthropic/claude-opus-4-8")
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert rows["model"] == "anthropic/claude-opus-4-8"
    assert rows["credentials"] == "no"
    assert rows["thinking"].endswith("high, xhigh, max")
    assert "6.25 cache write" in rows["price"]
    lost = home.run("models", "show", "nobody/nothing")
    assert (lost.returncode, lost.stdout) == (1, "")
    assert 'Model "nobody/nothing" not found' in lost.stderr
    several = home.run("models", "show", "claude-sonnet-5")
    assert (several.returncode, several.stdout) == (1, "")
    assert "anthropic/claude-sonnet-5" in several.stderr
    assert "Name it as provider/model." in several.stderr


def test_show_takes_what_model_takes(home: Home) -> None:
    done = home.run("models", "show", "sonnet:high", ANTHROPIC_API_KEY="k")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[1].startswith("anthropic/claude-sonnet-")
    assert home.run("models", "show", "ludolf/offline").returncode == 0
    near = home.run("models", "show", "anthropic/claude-opus-48")
    assert (near.returncode, near.stdout) == (1, "")
    assert 'Did you mean "anthropic/claude-opus-4-8"?' in near.stderr


@pytest.mark.parametrize("keys", [{}, {"GROQ_API_KEY": "k"}])
def test_a_search_counts_matches_without_credentials(home: Home, keys: dict[str, str]) -> None:
    done = home.run("models", "sonnet", **keys)
    assert (done.returncode, done.stdout) == (0, "")
    count = len(home.run("models", "--all", "sonnet").stdout.splitlines()) - 1
    assert f"Without credentials: {count} models match." in done.stderr
    assert "`ludolf models --all sonnet`" in done.stderr


def test_the_default_model_keeps_the_text_of_the_settings(home: Home) -> None:
    settings = home.agent / "settings.json"
    text = '{\n    "theme":   "dark",\n    "defaultModel": "x"\n}\n'
    settings.write_text(text)
    assert home.run("models", "default", "haiku").returncode == 0
    lines = settings.read_text().splitlines()
    assert lines[1] == '    "theme":   "dark",'
    assert json.loads(settings.read_text())["defaultProvider"] == "anthropic"


def test_the_default_model_is_set_and_shown(home: Home) -> None:
    settings = home.agent / "settings.json"
    settings.write_text('{"theme": "dark"}')
    unset = home.run("models", "default")
    assert (unset.returncode, unset.stdout) == (1, "")
    assert "No default model is set. Sessions start with ludolf/offline." in unset.stderr
    done = home.run("models", "default", "anthropic/claude-opus-4-8:high", ANTHROPIC_API_KEY="k")
    told = "Default model: anthropic/claude-opus-4-8 with thinking level high."
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{told} Stored in {settings}\n"
    assert json.loads(settings.read_text()) == {
        "theme": "dark",
        "defaultProvider": "anthropic",
        "defaultModel": "claude-opus-4-8",
        "defaultThinkingLevel": "high",
    }
    shown = home.run("models", "default", ANTHROPIC_API_KEY="k")
    assert (shown.returncode, shown.stdout) == (0, "anthropic/claude-opus-4-8\n")
    keyless = home.run("models", "default")
    assert (keyless.returncode, keyless.stdout) == (1, shown.stdout)
    assert "ANTHROPIC_API_KEY" in keyless.stderr
    assert keyless.stderr.endswith("Sessions start with ludolf/offline.\n")


def test_the_default_model_may_lack_a_key_but_must_exist(home: Home) -> None:
    keyless = home.run("models", "default", "haiku")
    assert keyless.returncode == 0
    assert "Warning: anthropic has no credentials. Set ANTHROPIC_API_KEY" in keyless.stderr
    before = (home.agent / "settings.json").read_text()
    for pattern, text in (
        ("sonet", 'Model "sonet" not found. Did you mean "sonnet"?'),
        ("anthropic/claude-opus-48", 'Did you mean "claude-opus-4-8"?'),
        ("antropic/claude", 'Model "antropic/claude" not found.'),
    ):
        lost = home.run("models", "default", pattern)
        assert (lost.returncode, lost.stdout) == (1, "")
        assert text in lost.stderr
    assert (home.agent / "settings.json").read_text() == before


def test_the_offline_model_can_be_the_default(home: Home) -> None:
    assert home.run("models", "default", "ludolf/offline").returncode == 0
    done = home.run("-p", "list the files here", ANTHROPIC_API_KEY="k")
    assert (done.returncode, done.stderr) == (0, "")


def test_schema_prints_what_is_published(home: Home) -> None:
    published = SOURCE.parent / "docs" / "schema" / "models.schema.json"
    assert home.run("models", "schema").stdout == published.read_text()


def test_models_alone_lists_what_can_be_used(home: Home) -> None:
    assert home.run("models", GROQ_API_KEY="k").stdout.startswith("provider  model")


@pytest.mark.parametrize("words", [("models", "shw"), ("models", "show"), ("sessions", "x")])
def test_words_that_say_nothing_are_refused_with_the_usage(
    home: Home, words: tuple[str, ...]
) -> None:
    done = home.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: ludolf" in done.stderr


# ---------------------------------------------------------------- as omp


@pytest.mark.parametrize("words", [("list", "--json"), ("ls", "--json"), ("--json",)])
def test_in_the_dialect_omp_the_list_is_one_object(lab: Lab, words: tuple[str, ...]) -> None:
    done = lab.run("models", *words, LUDOLF_RPC_DIALECT="omp")
    (line,) = done.stdout.splitlines()
    models = {model["selector"]: model for model in loads(line)["models"]}
    model = models["claude/large"]
    assert list(model) == [
        *("provider", "id", "selector", "name", "contextWindow", "maxTokens"),
        *("reasoning", "thinking", "input", "cost"),
    ]
    assert (model["provider"], model["id"]) == ("claude", "large")
    for each in models.values():
        assert (each["thinking"] is None) == (not each["reasoning"])


def test_elsewhere_the_list_is_one_model_a_line(lab: Lab) -> None:
    short, long = lab.run("models", "--json"), lab.run("models", "list", "--json")
    assert short.stdout == long.stdout
    assert len(long.stdout.splitlines()) > 1
    assert "selector" not in loads(long.stdout.splitlines()[0])


def test_the_version_in_the_dialect_omp_has_its_name(lab: Lab) -> None:
    assert lab.run("--version", LUDOLF_RPC_DIALECT="omp").stdout.decode() == f"omp/{__version__}\n"


def test_whole_prices_are_written_without_a_fraction(lab: Lab) -> None:
    path = lab.agent / "models.json"
    data = json.loads(path.read_text())
    prices = {"input": 3, "output": 0.5, "cacheRead": 0, "cacheWrite": 0}
    data["providers"]["claude"]["models"][0]["cost"] = prices
    path.write_text(json.dumps(data))
    words = ("models", "show", f"claude/{data['providers']['claude']['models'][0]['id']}", "--json")
    assert json.dumps(loads(lab.run(*words).stdout)["cost"]) == json.dumps(prices)
