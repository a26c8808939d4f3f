"""Tests of extensions in JavaScript and TypeScript: the Node that runs them, if there is one."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from ludolf.config.settings.home import Home
from ludolf.engine.features.script_extensions.node import NodeHost, NoNode, find_node
from tests.process.extending import lay
from tests.process.harness import Lab


def _found() -> NodeHost | None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)  # the version of Node is stored here
        try:
            home = Home(agent=folder, cwd=folder, user=folder)
            return asyncio.run(find_node(home, os.environ, None))
        except NoNode:
            return None


NODE = _found()
needs_node = pytest.mark.skipif(NODE is None, reason="no Node 22.12 or newer; install ludolf[pi]")
SCRIPTS = Path(__file__).parent / "fixtures" / "scripts"


def lay_script(lab: Lab, name: str) -> Path:
    """An extension of the user's, from the scripts of the tests."""
    return lay(lab, (SCRIPTS / f"{name}.ts").read_text(), f"{name}.ts")
