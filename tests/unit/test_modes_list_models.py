"""`--list-models`, through the real program in a home of its own."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
LOCAL = """{"providers": {"local": {
  "baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "none",
  "models": [
    {"id": "small", "contextWindow": 32768, "maxTokens": 4000},
    {"id": "big", "reasoning": true, "input": ["text", "image"], "contextWindow": 1000000}
  ]}}}"""


def list_models(home: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ludolf", "--list-models", *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(home), **environ},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )


def configure(home: Path, models: str) -> None:
    (home / ".pi" / "agent").mkdir(parents=True)
    (home / ".pi" / "agent" / "models.json").write_text(models)


def test_models_of_a_configured_provider_are_listed_in_columns_sorted_by_name(
    tmp_path: Path,
) -> None:
    configure(tmp_path, LOCAL)
    assert list_models(tmp_path).stdout.splitlines() == [
        "provider  model  context  max-out  thinking  images",
        "local     big    1M       16.4K    yes       yes",
        "local     small  32.8K    4K       no        no",
    ]


def test_a_key_in_the_environment_makes_the_models_of_its_provider_appear(tmp_path: Path) -> None:
    shown = list_models(tmp_path, ANTHROPIC_API_KEY="k").stdout.splitlines()
    assert len(shown) > 2
    assert {line.split()[0] for line in shown[1:]} == {"anthropic"}


def test_a_search_keeps_models_that_hold_all_its_words(tmp_path: Path) -> None:
    configure(tmp_path, LOCAL)
    shown = list_models(tmp_path, "LOCAL sm").stdout.splitlines()
    assert [line.split()[1] for line in shown[1:]] == ["small"]


def test_a_search_forgives_left_out_letters(tmp_path: Path) -> None:
    configure(tmp_path, LOCAL)
    shown = list_models(tmp_path, "smll").stdout.splitlines()
    assert [line.split()[1] for line in shown[1:]] == ["small"]


def test_a_search_without_a_match_says_so_on_stderr(tmp_path: Path) -> None:
    configure(tmp_path, LOCAL)
    done = list_models(tmp_path, "xyzzy")
    assert (done.stdout, done.stderr) == ("", 'No models matching "xyzzy"\n')


def test_without_credentials_the_way_to_get_some_is_told_on_stderr(tmp_path: Path) -> None:
    done = list_models(tmp_path)
    assert done.stdout == ""
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert str(tmp_path / ".pi" / "agent" / "models.json") in done.stderr


def test_a_broken_models_file_is_told_and_other_models_are_still_listed(tmp_path: Path) -> None:
    configure(tmp_path, "{not json")
    done = list_models(tmp_path, OPENAI_API_KEY="k")
    assert "models.json" in done.stderr
    assert "openai" in done.stdout
