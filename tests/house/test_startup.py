"""The first reply does not wait for modules that it does not need."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import SOURCE

# By the beginning of their names; asyncio itself brings ssl and logging, msgspec brings uuid.
LATER = (
    "PIL",
    "aiohttp",
    "argparse",
    "attr",
    "dataclasses",
    "difflib",
    "email",
    "http",
    "importlib.metadata",
    "importlib.resources",
    "jsonschema_rs",
    "multidict",
    "shutil",
    "tempfile",
    "yaml",
    "yarl",
    "ludolf.ai.handoff",
    "ludolf.ai.providers.anthropic",
    "ludolf.ai.providers.google",
    "ludolf.ai.providers.openai",
    "ludolf.client",
    "ludolf.config.context_files",
    "ludolf.config.front_matter",
    "ludolf.config.ignore",
    "ludolf.config.lock",
    "ludolf.config.resources",
    "ludolf.config.skills",
    "ludolf.config.system_prompt",
    "ludolf.config.templates",
    "ludolf.config.trust",
    "ludolf.extensions.",
    "ludolf.help",
    "ludolf.modes.list_models",
    "ludolf.modes.live",
    "ludolf.modes.one_shot",
    "ludolf.modes.progress",
    "ludolf.protocol.wire",
    "ludolf.session.branching",
    "ludolf.session.compaction",
    "ludolf.session.export",
    "ludolf.session.migrate",
    "ludolf.session.summary_text",
    "ludolf.modes.subcommands",
    "ludolf.sdk",
    "ludolf.ai.local.ask",
    "ludolf.ai.local.child",
    "ludolf.ai.local.files",
    "ludolf.ai.local.gguf",
    "ludolf.ai.local.kinds",
    "ludolf.ai.local.servers",
    "ludolf.ai.oauth",
    "ludolf.ai.recording",
    "ludolf.ai.replaying",
    "ludolf.config.oauth",
    "ludolf.config.models_store",
    "ludolf.config.approval_rules",
    "ludolf.config.safety_settings",
    "ludolf.config.simple_command",
    "ludolf.engine.approvals",
    "ludolf.engine.logins",
    "ludolf.engine.safety",
    "ludolf.engine.secrets_mask",
    "ludolf.engine.subagents.",
    "ludolf.tools.",
)
# What is loaded some time after the start is put off, since a busy machine may need so long for the
# reply itself.
PROGRAM = """
import sys
from ludolf.modes.rpc import run
run.WARM_UP_SECONDS = 3600
from ludolf.cli import main
main(sys.argv[1:])
"""
BUILT_IN_MODELS = ("ludolf.ai.providers.",)
_IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)


def _modules_at_first_reply(home: Path, **environ: str) -> list[str]:
    """The end of input follows the command at once, so little more than the reply is done."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-P", "-c", PROGRAM, "--mode", "rpc"],
        input='{"type":"get_state"}\n',
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(home), **environ},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"command":"get_state","success":true' in done.stdout
    names = _IMPORTED.findall(done.stderr)
    assert "ludolf.cli" in names
    return names


@pytest.mark.parametrize(
    ("environ", "later"),
    [
        pytest.param({}, LATER, id="offline"),
        pytest.param({"OPENAI_API_KEY": "k"}, (*LATER, *BUILT_IN_MODELS), id="with a key"),
    ],
)
def test_the_first_reply_loads_only_what_it_needs(
    environ: dict[str, str], later: tuple[str, ...], tmp_path: Path
) -> None:
    loaded = _modules_at_first_reply(tmp_path, **environ)
    early = [name for name in loaded if f"{name}.".startswith(tuple(_whole(later)))]
    assert not early, "\n".join(early)


def _whole(names: tuple[str, ...]) -> list[str]:
    """Names of third parties match whole modules; ours match by their beginning."""
    return [name if name.startswith("ludolf.") else f"{name}." for name in names]
