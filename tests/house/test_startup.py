"""The first reply does not wait for modules that it does not need."""

import json
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
    "ludolf.ai.history",
    "ludolf.ai.providers.anthropic.provider",
    "ludolf.ai.providers.google.provider",
    "ludolf.ai.providers.openai",
    "ludolf.client",
    "ludolf.config.resources.context_files",
    "ludolf.config.resources.front_matter",
    "ludolf.config.resources.ignore",
    "ludolf.config.settings.lock",
    "ludolf.config.resources.sources",
    "ludolf.config.resources.skills",
    "ludolf.config.resources.system_prompt",
    "ludolf.config.resources.templates",
    "ludolf.config.settings.trust",
    "ludolf.extensions.",
    "ludolf.cli.help",
    "ludolf.page.live",
    "ludolf.cli.one_shot",
    "ludolf.cli.progress",
    "ludolf.protocol.wire",
    "ludolf.session.branching",
    "ludolf.session.compaction",
    "ludolf.page",
    "ludolf.session.migrate",
    "ludolf.session.summary_text",
    "ludolf.cli.subcommands",
    "ludolf.sdk",
    "ludolf.ai.local.servers",
    "ludolf.ai.local.provider",
    "ludolf.ai.local.files",
    "ludolf.ai.local.gguf",
    "ludolf.ai.local.kinds",
    "ludolf.ai.local.servers",
    "ludolf.ai.http.oauth",
    "ludolf.ai.record.recording",
    "ludolf.ai.record.replay",
    "ludolf.config.auth.oauth",
    "ludolf.config.models.models_store",
    "ludolf.config.settings.approval_rules",
    "ludolf.config.settings.safety_settings",
    "ludolf.config.settings.approval_rules",
    "ludolf.engine.host.approvals",
    "ludolf.engine.host.logins",
    "ludolf.engine.features.safety",
    "ludolf.engine.features.secrets",
    "ludolf.engine.features.subagents.",
    "ludolf.tools.",
)
# What is loaded some time after the start is put off, since a busy machine may need so long for the
# reply itself.
PROGRAM = """
import sys
from ludolf.rpc import server
server.WARM_UP_SECONDS = 3600
from ludolf.cli.main import main
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
    assert "ludolf.cli.main" in names
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


# Writes the modules that are loaded when the first answer is sent.
ACP_PROGRAM = """
import sys
from ludolf.cli.main import main
from ludolf.rpc.stdio import Stdio

class Watched(Stdio):
    def send(self, frame):
        sys.stderr.write("\\n".join(sys.modules) + "\\n")
        super().send(frame)

from ludolf.acp import run
run.Stdio = Watched
main(["acp"])
"""


def test_an_editor_gets_its_first_answer_before_the_engine_is_loaded(tmp_path: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    done = subprocess.run(
        [sys.executable, "-P", "-c", ACP_PROGRAM],
        input=json.dumps(hello) + "\n",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"protocolVersion":1' in done.stdout
    loaded = done.stderr.splitlines()
    assert "ludolf.acp.server" in loaded
    heavy = ("ludolf.engine", "ludolf.session", "ludolf.tools", "ludolf.config.models")
    assert [name for name in loaded if name.startswith(heavy)] == []
