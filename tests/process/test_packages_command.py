"""`ludolf install`, `list`, `update`, `remove`, `config` with a local registry and repository."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads
from tests.process.harness import Lab
from tests.process.npm_registry import NpmRegistry
from tests.script_host import needs_node

SKILL = "---\nname: {0}\ndescription: About {0}.\n---\nDo it.\n"
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not on PATH")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[NpmRegistry]:
    with NpmRegistry(tmp_path / "npm-cache") as registry:
        registry.add("tools", "1.0.0", {"skills/old/SKILL.md": SKILL.format("old")})
        registry.add(
            "tools",
            "1.1.0",
            {"skills/new/SKILL.md": SKILL.format("new"), "prompts/ask.md": "Ask $1"},
            scripts={"install": "node -e \"require('fs').writeFileSync('ran', '')\""},
            peerDependencies={"@earendil-works/pi-coding-agent": "*"},
        )
        yield registry


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z"}
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(
        ["git", *names, *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout


def repository(folder: Path) -> dict[str, Any]:
    """Make a repository; return the environment in which git clones it instead of example.org."""
    source = folder / "u/r"
    (source / "prompts").mkdir(parents=True)
    (source / "prompts/first.md").write_text("First")
    git(source, "init", "--quiet", "--initial-branch=main")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "-m", "first")
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{folder}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://example.org/",
    }


def entries(lab: Lab, *, project: bool = False) -> Any:
    folder = lab.work / ".pi" if project else lab.agent
    return loads((folder / "settings.json").read_bytes()).get("packages", [])


def listed(lab: Lab, *words: str) -> list[Any]:
    packages: list[Any] = loads(lab.run("list", "--json", *words).stdout)["packages"]
    return packages


async def commands(lab: Lab) -> dict[str, str]:
    async with lab.client("--no-session") as client:
        found = await client.get_commands()
        return {one.name: one.source_info.source for one in found if one.source_info is not None}


@needs_npm
async def test_a_package_of_npm_is_installed_used_updated_and_removed(
    lab: Lab, registry: NpmRegistry
) -> None:
    done = lab.run("install", "npm:tools@^1.0.0", "--json", **registry.env)
    assert done.code == 0, done.stderr
    report = loads(done.stdout)
    assert (report["package"]["version"], report["skippedScripts"]) == ("1.1.0", ["tools"])
    folder = lab.agent / "npm/node_modules/tools"
    assert folder.is_dir() and not (folder / "ran").exists()
    assert (lab.agent / "npm/package-lock.json").is_file()
    assert entries(lab) == ["npm:tools@^1.0.0"]
    assert await commands(lab) == {"ask": "npm:tools@^1.0.0", "skill:new": "npm:tools@^1.0.0"}
    registry.add("tools", "1.2.0", {"skills/newest/SKILL.md": SKILL.format("newest")})
    done = lab.run("update", "--extensions", **registry.env)
    assert done.stdout == b"Updated npm:tools@^1.0.0\n", done.stderr
    assert listed(lab)[0]["version"] == "1.2.0"
    assert lab.run("remove", "npm:tools", **registry.env).code == 0
    assert entries(lab) == [] and not folder.exists()


@needs_npm
def test_scripts_run_only_with_leave_and_a_pinned_version_stays(
    lab: Lab, registry: NpmRegistry
) -> None:
    done = lab.run("install", "npm:tools@1.1.0", "--allow-scripts", **registry.env)
    assert done.code == 0, done.stderr
    assert (lab.agent / "npm/node_modules/tools/ran").exists()
    registry.add("tools", "1.2.0", {})
    assert lab.run("update", "npm:tools").stdout == b"Pinned, not updated: npm:tools@1.1.0\n"
    text = lab.run("list").stdout.decode()
    assert "npm:tools@1.1.0 1.1.0: 1 skill, 1 prompt template" in text


@needs_npm
async def test_a_package_of_the_command_line_is_for_one_session(
    lab: Lab, registry: NpmRegistry
) -> None:
    async with lab.client("--no-session", "-e", "npm:tools@1.1.0", **registry.env) as client:
        found = {one.name: one for one in await client.get_commands()}
    info = found["skill:new"].source_info
    assert info is not None
    assert (info.source, info.scope, info.origin) == ("npm:tools@1.1.0", "temporary", "package")
    assert (lab.agent / "tmp/extensions").stat().st_mode & 0o777 == 0o700
    assert entries(lab) == [] and listed(lab) == []


async def test_a_folder_of_the_command_line_brings_its_skills_too(lab: Lab) -> None:
    (lab.work / "kit/skills/own").mkdir(parents=True)
    (lab.work / "kit/skills/own/SKILL.md").write_text(SKILL.format("own"))
    (lab.work / "kit/package.json").write_text(
        '{"pi": {"skills": ["skills"], "extensions": ["x.py"]}}'
    )
    (lab.work / "kit/x.py").write_text("def extension(api): ...")
    async with lab.client("--no-session", "-e", "./kit/x.py", "-e", "./kit") as client:
        assert [one.name for one in await client.get_commands()] == ["skill:own"]


@needs_npm
def test_a_failed_installation_leaves_the_settings_alone(lab: Lab, registry: NpmRegistry) -> None:
    done = lab.run("install", "npm:unknown", **registry.env)
    assert done.code == 1
    assert "failed with code 1" in done.stderr
    assert entries(lab) == []


async def test_a_repository_is_installed_updated_and_removed(lab: Lab) -> None:
    env = repository(lab.root / "origin")
    done = lab.run("install", "git:example.org/u/r", **env)
    assert done.stdout == b"Installed git:example.org/u/r: 1 prompt template\n", done.stderr
    folder = lab.agent / "git/example.org/u/r"
    assert await commands(lab) == {"first": "git:example.org/u/r"}
    source = lab.root / "origin/u/r"
    (source / "prompts/second.md").write_text("Second")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "-m", "second")
    assert lab.run("update", "https://example.org/u/r", **env).code == 0
    assert set(await commands(lab)) == {"first", "second"}
    first = git(source, "rev-list", "--max-parents=0", "HEAD").strip()
    assert lab.run("install", f"git:example.org/u/r@{first}", **env).code == 0
    assert entries(lab) == [f"git:example.org/u/r@{first}"]
    assert set(await commands(lab)) == {"first"}
    assert lab.run("uninstall", "git:example.org/u/r", **env).code == 0
    assert entries(lab) == [] and not folder.parent.exists()
    missing = lab.run("install", "git:example.org/u/none", **env)
    assert missing.code == 1 and not (lab.agent / "git/example.org").exists()


async def test_nothing_is_installed_at_start_and_the_warning_names_the_command(lab: Lab) -> None:
    lab.settings(packages=["npm:absent", {"source": "git:example.org/u/r@v1"}])
    done = lab.run("--mode", "rpc", "--no-session")
    assert "Package npm:absent is not installed. Run: ludolf install npm:absent\n" in done.stderr
    assert "Run: ludolf install git:example.org/u/r@v1\n" in done.stderr
    assert listed(lab)[0]["missing"] is True
    assert "Package npm:absent is not installed" in lab.run("doctor").stdout.decode()
    assert "npm:absent: not installed" in lab.run("list").stdout.decode()


def test_nothing_is_fetched_while_offline(lab: Lab) -> None:
    done = lab.run("install", "npm:tools", PI_OFFLINE="1")
    assert done.code == 1 and "npm:tools is not installed: Ludolf is offline" in done.stderr


async def test_a_package_of_the_project_needs_trust_and_keeps_it(lab: Lab) -> None:
    (lab.work / "kit/skills/own").mkdir(parents=True)
    (lab.work / "kit/skills/own/SKILL.md").write_text(SKILL.format("own"))
    assert lab.run("install", "./kit", "-l").code == 0
    assert entries(lab, project=True) == ["../kit"]
    assert await commands(lab) == {"skill:own": "../kit"}
    assert lab.run("config", "./kit", "--disable", "skills/own", "-l").code == 0
    assert await commands(lab) == {}
    lab.run("trust", "--revoke")
    refused = lab.run("remove", "./kit", "-l")
    assert refused.code == 1 and "is not trusted" in refused.stderr
    assert listed(lab) == []
    assert lab.run("remove", "./kit", "-l", "--approve").code == 0
    assert entries(lab, project=True) == []
    assert (lab.work / "kit").is_dir()


def test_config_shows_and_chooses_resources(lab: Lab) -> None:
    for name in ("one", "two"):
        (lab.work / f"kit/skills/{name}").mkdir(parents=True)
        (lab.work / f"kit/skills/{name}/SKILL.md").write_text(SKILL.format(name))
    lab.run("install", "./kit")
    (source,) = entries(lab)
    shown = lab.run("config", "./kit", "--disable", "skills/one").stdout.decode()
    assert "[ ] skills/one/SKILL.md" in shown and "[x] skills/two/SKILL.md" in shown
    assert entries(lab) == [{"source": source, "skills": ["-skills/one/SKILL.md"]}]
    lab.run("config", "./kit", "--enable", "skills/one")
    assert entries(lab) == [source]
    lab.run("config", "./kit", "--disable", "skills")
    assert listed(lab)[0]["disabled"] is True
    lab.run("config", "./kit", "--enable", "skills/two")
    assert entries(lab) == [{"source": source, "skills": ["skills/two/SKILL.md"]}]
    lab.run("config", "./kit", "--enable", "skills")
    assert entries(lab) == [source]
    wrong = lab.run("config", "./kit", "--disable", "skills/three")
    assert wrong.code == 1 and "no resource skills/three" in wrong.stderr
    unknown = lab.run("config", "npm:other", "--disable", "skills")
    assert unknown.code == 1 and "No matching package found for npm:other" in unknown.stderr


@needs_node
def test_a_new_package_is_loaded_once_so_that_errors_show_early(lab: Lab) -> None:
    for name, body in (("good", ""), ("bad", "throw new Error('of the author');")):
        folder = lab.work / name / "extensions"
        folder.mkdir(parents=True)
        (folder / "main.ts").write_text(f"export default function (pi: unknown) {{ {body} }}")
    good = lab.run("install", "./good", PI_OFFLINE="1")
    assert good.code == 0 and "does not load" not in good.stderr
    bad = lab.run("install", "./bad", PI_OFFLINE="1")
    assert bad.code == 0
    assert "is installed but does not load" in bad.stderr and "of the author" in bad.stderr
    assert [one["needsNode"] for one in listed(lab)] == [True, True]
