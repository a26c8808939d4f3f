"""`ludolf doctor`: finds what is wrong, says what to do, prints no key."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Record
from tests.loopback import JSON_BODY, Canned, Loopback
from tests.process.harness import Lab

SECRET = "sk-very-secret-value"


def _findings(lab: Lab, *words: str, code: int = 0, **env: str) -> dict[str, list[Record]]:
    done = lab.run("doctor", "--json", *words, stdin=b"", **env)
    assert done.code == code, (done.stdout, done.stderr)
    assert SECRET.encode() not in done.stdout
    found: dict[str, list[Record]] = {}
    for record in done.records:
        found.setdefault(record["area"], []).append(record)
    return found


def test_a_sound_installation_has_no_error(lab: Lab) -> None:
    found = _findings(lab, ANTHROPIC_API_KEY=SECRET)
    assert {"ludolf", "python", "home", "settings", "models", "tool", "sessions"} <= set(found)
    anthropic = next(one for one in found["provider"] if one["text"].startswith("anthropic"))
    assert anthropic["status"] == "ok"
    assert "ANTHROPIC_API_KEY" in anthropic["text"]
    assert {one["status"] for one in found["server"]} == {"ok"}  # the model server of the test
    text = lab.run("doctor").stdout.decode()
    assert text.startswith("ok       ludolf     ")


def test_mistakes_are_errors_with_a_next_step(lab: Lab) -> None:
    lab.settings(sandbox={"mode": "on"})
    (lab.agent / "models.json").write_text('{"providers": {"x": {"baseUrl": 3}}}')
    found = _findings(lab, code=1)
    for area in ("settings", "models"):
        assert found[area][0]["status"] == "error"
        assert found[area][0]["hint"]


def test_an_invalid_setting_and_an_untrusted_project_are_warnings(lab: Lab) -> None:
    lab.settings(sync="perhaps")
    (lab.work / ".pi" / "skills").mkdir(parents=True)
    found = _findings(lab)
    assert found["settings"][0]["status"] == "warning"
    assert "ludolf trust" in found["trust"][0]["hint"]


def test_a_default_model_without_credentials_is_named(lab: Lab) -> None:
    lab.settings(defaultProvider="anthropic", defaultModel="claude-sonnet-5")
    (warning,) = _findings(lab)["model"]
    assert (warning["status"], warning["hint"]) == ("warning", "ludolf auth login anthropic")


def test_entries_of_mcp_servers_are_checked_and_none_starts(lab: Lab) -> None:
    servers = {
        "good": {"command": "touch", "args": ["started"]},
        "off": {"url": "https://x.org/mcp", "enabled": False},
        "unset": {"url": "https://x.org/mcp", "headers": {"A": "${NO_SUCH}"}},
        "missing": {"command": "no-such-program"},
        "empty": {},
    }
    (lab.agent / "mcp.json").write_text(dumps({"mcpServers": servers}).decode())
    found = [(one["status"], one["text"]) for one in _findings(lab)["mcp"]]
    assert [status for status, _ in found] == ["warning", "ok", "ok", "warning", "warning"]
    texts = [text for _, text in found]
    assert 'server "empty": set `command` or `url`' in texts[0]
    assert texts[1:3] == ["good (stdio, user): valid", "off (http, user): disabled"]
    assert "unset: `headers.A`: the environment variable NO_SUCH is not set" in texts[3]
    assert "missing: Cannot start no-such-program: no such program in PATH" in texts[4]
    assert not (lab.work / "started").exists()


def test_session_files_that_others_can_read_are_counted(lab: Lab) -> None:
    # Not in the folder of the test, since pytest keeps other users out of its parent.
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if not all(place.stat().st_mode & 0o011 for place in folder.parents):
            pytest.skip(f"other users cannot enter the parents of {folder}")
        (folder / "a.jsonl").write_text("{}\n")
        (folder / "a.jsonl").chmod(0o644)
        sessions = _findings(lab, LUDOLF_CODING_AGENT_SESSION_DIR=name)["sessions"]
    assert "1 files" in sessions[0]["text"]
    assert sessions[1]["status"] == "warning"
    assert "chmod" in sessions[1]["hint"]


def test_a_home_that_is_not_a_folder_is_an_error(lab: Lab) -> None:
    place = lab.root / "file"
    place.write_text("")
    assert _findings(lab, code=1, LUDOLF_DIR=str(place))["home"][0]["status"] == "error"


def test_a_configured_server_that_does_not_listen_is_a_warning(lab: Lab) -> None:
    models = loads((lab.agent / "models.json").read_bytes())
    models["providers"] = {"mine": {**models["providers"]["claude"]}}
    models["providers"]["mine"]["baseUrl"] = "http://127.0.0.1:1"
    (lab.agent / "models.json").write_bytes(dumps(models))
    (server,) = _findings(lab)["server"]
    assert (server["status"], "127.0.0.1:1" in server["text"]) == ("warning", True)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (401, 1)])
def test_only_online_asks_the_providers(lab: Lab, status: int, code: int) -> None:
    reply = Canned(status=status, headers=JSON_BODY, chunks=[dumps({"data": [{"id": "m"}]})])
    with Loopback(reply) as server:
        entry = {"baseUrl": server.url, "api": "openai-completions", "apiKey": SECRET}
        providers = {"mine": {**entry, "models": [{"id": "m"}]}}
        (lab.agent / "models.json").write_bytes(dumps({"providers": providers}))
        assert "online" not in _findings(lab)
        assert not server.requests
        (online,) = _findings(lab, "--online", code=code)["online"]
    assert online["status"] == ("error" if code else "ok")
    assert "mine" in online["text"]


def test_what_each_run_warns_about_is_found_and_no_code_runs(lab: Lab) -> None:
    lab.settings(compaction={"enabld": True}, nodeCommand="/nowhere/node")
    models = loads((lab.agent / "models.json").read_bytes())
    models["providers"]["claude"]["api"] = "anthropic-mesages"
    (lab.agent / "models.json").write_bytes(dumps(models))
    folder = lab.agent / "extensions"
    folder.mkdir()
    (folder / "broken.py").write_text("def extension(:")
    (folder / "fine.py").write_text("open('ran', 'w')")
    (folder / "old.ts").write_text("")
    found = _findings(lab, code=1)
    assert '"compaction.enabled"' in found["settings"][0]["text"]
    assert "settings unset" in found["settings"][0]["hint"]
    unknown = next(one for one in found["models"] if one["status"] == "warning")
    assert 'unknown API "anthropic-mesages". Did you mean "anthropic-messages"?' in unknown["text"]
    states = {Path(one["text"].split()[0]).name: one["status"] for one in found["extension"]}
    assert states == {"broken.py": "error", "fine.py": "ok", "old.ts": "warning"}
    assert not (lab.work / "ran").exists()


def test_a_settings_file_that_is_not_json_must_be_edited(lab: Lab) -> None:
    (lab.agent / "settings.json").write_text("{,}")
    (warning,) = _findings(lab)["settings"]
    assert warning["hint"] == "Edit the file."


def test_a_sandbox_that_is_not_available_is_named_so(lab: Lab) -> None:
    for finding in _findings(lab)["sandbox"]:
        assert "works" in finding["text"] or "is not available" in finding["text"]
        assert "No sandbox" not in finding["text"] or finding["status"] == "warning"
