"""A plain prompt passes through few files, so that a reader can follow it."""

import importlib.util
from pathlib import Path

MOST_FILES = 35
MOST_CALLS = 250
SCRIPT = Path(__file__).parents[2] / "scripts" / "trace_prompt.py"


async def test_a_prompt_enters_few_files(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("trace_prompt", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    profile = await script.trace(tmp_path)
    assert profile.calls > 100, "the profiler has seen nothing"
    assert len(profile.files) <= MOST_FILES, sorted(profile.files)
    assert sum(profile.leaving.values()) <= MOST_CALLS, profile.leaving.most_common(20)
