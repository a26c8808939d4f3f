"""Code of a project runs only once the user, the command line or the host has trusted it."""

import json

import pytest

from ludolf.client import Client
from tests.process.extending import lay, lay_in_project, notes, told
from tests.process.harness import Lab
from tests.process.script import answer

OURS = """
from pathlib import Path
Path("loaded").touch()

def extension(api):
    @api.command("ours")
    async def ours(args, ctx):
        ctx.ui.notify(f"trusted: {ctx.is_project_trusted}")
"""
SPEAKER = """
def extension(api):
    @api.on("project_trust")
    async def trust(event, ctx):
        assert not hasattr(ctx, "session")
        return {{"trusted": {trusted!r}, "remember": {remember}}}

    @api.command("mine")
    async def mine(args, ctx): ...
"""


async def _commands(client: Client) -> set[str]:
    return {one["name"] for one in (await client.ask("get_commands"))["commands"]}


def _stored(lab: Lab) -> object:
    path = lab.agent / "trust.json"
    return json.loads(path.read_text()) if path.exists() else None


async def test_an_untrusted_extension_does_not_run(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    async with lab.client() as client:
        assert await _commands(client) == set()
    assert not (lab.work / "loaded").exists()
    assert "is not trusted" in client.process.stderr


def test_nobody_to_ask_means_no(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    lab.server.add(answer("Hello."))
    assert lab.run("-p", "Hi").code == 0
    assert not (lab.work / "loaded").exists()


async def test_approve_runs_it_this_time_only(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    async with lab.client("--approve") as client:
        await client.ask("prompt", message="/ours")
    assert notes(lab) == ["trusted: True"]
    assert _stored(lab) is None
    async with lab.client() as client:
        assert await _commands(client) == set()


async def test_the_host_can_trust_it_over_the_wire_and_that_is_stored(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    async with lab.client() as client:
        assert await _commands(client) == set()
        await client.ask("set_project_trust", trusted=True)
        assert await _commands(client) == {"ours"}
        assert _stored(lab) == {str(lab.work.resolve()): True}
        await client.ask("set_project_trust", trusted=False)
        assert await _commands(client) == set()
        await client.ask("set_project_trust", trusted=True)
    async with lab.client() as client:
        assert await _commands(client) == {"ours"}


async def test_trust_over_the_wire_need_not_be_remembered(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    async with lab.client() as client:
        await client.ask("set_project_trust", trusted=True, remember=False)
        assert await _commands(client) == {"ours"}
    assert _stored(lab) is None


async def test_an_extension_of_the_user_can_speak_for_the_project(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    lay(lab, SPEAKER.format(trusted="yes", remember=True))
    async with lab.client() as client:
        assert await _commands(client) == {"mine", "ours"}
        await client.ask("prompt", message="/ours")
    assert notes(lab) == ["trusted: True"]
    assert _stored(lab) == {str(lab.work.resolve()): True}


async def test_an_extension_that_is_undecided_changes_nothing(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    lay(lab, SPEAKER.format(trusted="undecided", remember=True))
    async with lab.client() as client:
        assert await _commands(client) == {"mine"}
    assert _stored(lab) is None


async def test_no_approve_beats_an_extension(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    lay(lab, SPEAKER.format(trusted="yes", remember=False))
    async with lab.client("--no-approve") as client:
        assert await _commands(client) == {"mine"}


async def test_an_extension_can_say_no_and_that_is_stored(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    lay(lab, SPEAKER.format(trusted="no", remember=True))
    async with lab.client() as client:
        assert await _commands(client) == {"mine"}
    assert _stored(lab) == {str(lab.work.resolve()): False}


async def test_settings_of_an_untrusted_project_name_no_extensions(lab: Lab) -> None:
    hidden = lay_in_project(lab, OURS, "deeper/hidden.py")
    settings = lab.work / ".pi" / "settings.json"
    settings.write_text(json.dumps({"extensions": [str(hidden)]}))
    async with lab.client() as client:
        assert await _commands(client) == set()
    async with lab.client("--approve") as client:
        assert await _commands(client) == {"ours"}


def _warnings(lab: Lab) -> list[str]:
    return [one["message"] for one in told(lab) if one["type"] == "warning"]


async def test_that_a_project_is_not_trusted_is_told_in_one_event(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    async with lab.client() as client:
        await client.ask("get_state")
        (warning,) = _warnings(lab)
        assert f"{lab.work} is not trusted" in warning
        await client.ask("new_session")
    assert len(_warnings(lab)) == 1


async def test_of_a_project_that_an_extension_trusts_nothing_is_told(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    lay(lab, SPEAKER.format(trusted="yes", remember=False))
    async with lab.client() as client:
        await client.ask("get_state")
    assert _warnings(lab) == []


@pytest.mark.parametrize(
    "name", ["extensions/ours.py", "extensions/new.py", "settings.json", "x.py"]
)
async def test_a_project_that_changed_after_it_was_trusted_has_to_be_trusted_again(
    lab: Lab, name: str
) -> None:
    lay_in_project(lab, OURS)
    settings = lab.work / ".pi" / "settings.json"
    settings.write_text(json.dumps({"extensions": ["x.py"]}))
    async with lab.client() as client:
        await client.ask("set_project_trust", trusted=True)
    (lab.work / ".pi" / "skills").mkdir()  # runs nothing
    async with lab.client() as client:
        assert await _commands(client) == {"ours"}
    with (lab.work / ".pi" / name).open("a") as file:
        file.write("\n")
    lab.lines.clear()
    async with lab.client() as client:
        assert await _commands(client) == set()
        (warning,) = _warnings(lab)
        assert f"{lab.work} has changed since it was trusted" in warning
        await client.ask("set_project_trust", trusted=True)
    async with lab.client() as client:
        assert await _commands(client) == {"ours"}


async def test_trust_that_pi_stored_is_bound_to_what_it_covers_at_its_first_use(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    (lab.agent / "trust.json").write_text(json.dumps({str(lab.work.resolve()): True}))
    async with lab.client() as client:
        assert await _commands(client) == {"ours"}
    lay_in_project(lab, OURS + "\n")
    lab.lines.clear()
    async with lab.client() as client:
        assert await _commands(client) == set()
        (warning,) = _warnings(lab)
        assert "has changed since it was trusted" in warning


@pytest.mark.parametrize("command", ["reload", "new_session"])
async def test_changed_code_is_not_loaded_later_in_the_same_process_either(
    lab: Lab, command: str
) -> None:
    path = lay_in_project(lab, OURS)
    async with lab.client() as client:
        await client.ask("set_project_trust", trusted=True)
        await client.ask(command)
        assert await _commands(client) == {"ours"}
        path.write_text(OURS.replace('"ours"', '"evil"'))
        await client.ask(command)
        assert await _commands(client) == set()
        (warning,) = [text for text in _warnings(lab) if "has changed" in text]
        assert str(lab.work) in warning
        await client.ask("set_project_trust", trusted=True)
        assert await _commands(client) == {"evil"}


async def test_a_changed_import_from_outside_the_extensions_costs_the_trust(lab: Lab) -> None:
    helper = lab.work / "lib" / "ours_helper.py"
    helper.parent.mkdir()
    helper.write_text("")
    source = f"import sys\nsys.path.insert(0, {str(helper.parent)!r})\nimport ours_helper\n"
    lay_in_project(lab, source + OURS)
    async with lab.client() as client:
        await client.ask("set_project_trust", trusted=True)
    async with lab.client() as client:
        assert await _commands(client) == {"ours"}
    helper.write_text("raise SystemExit\n")
    async with lab.client() as client:
        assert await _commands(client) == set()


async def test_a_session_of_another_folder_does_not_take_the_trust_along(lab: Lab) -> None:
    lay_in_project(lab, OURS)
    other = lab.root / "other"
    (other / ".pi" / "extensions").mkdir(parents=True)
    evil = OURS.replace('"loaded"', f'"{lab.root}/evil"').replace('"ours"', '"evil"')
    (other / ".pi" / "extensions" / "evil.py").write_text(evil)
    session = lab.root / "foreign.jsonl"
    header = {"type": "session", "version": 3, "id": "f", "timestamp": "2026-01-01T00:00:00Z"}
    session.write_text(json.dumps({**header, "cwd": str(other)}) + "\n")
    async with lab.client("--approve") as client:
        assert await _commands(client) == {"ours"}
        await client.ask("switch_session", sessionPath=str(session))
        assert await _commands(client) == set()
        assert any(f"{other} is not trusted" in text for text in _warnings(lab))
    async with lab.client("--approve", "--session", str(session)) as client:
        assert await _commands(client) == set()
    assert not (lab.root / "evil").exists()
