"""Our modules for pi's packages, in one Node process."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads
from tests.script_host import NODE, needs_node

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = [
    needs_node,
    pytest.mark.xdist_group("pi_modules"),
]


def run_node(*words: str, **env: str) -> bytes:
    assert NODE is not None
    environ = {"HOME": os.environ["HOME"], "PATH": os.defpath, **env}
    done = subprocess.run([*NODE.words, *words], env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def report() -> Any:
    return loads(run_node(str(HERE / "report.mjs")))


def test_schemas_are_those_of_typebox(report: Any) -> None:
    tag = {"anyOf": [{"type": "string", "const": "x"}, {"type": "null"}]}
    assert report["schema"] == {
        "type": "object",
        "required": ["mode", "tags"],
        "properties": {
            "mode": {"type": "string", "enum": ["fast", "slow"], "description": "How"},
            "count": {"type": "integer", "minimum": 1},
            "tags": {
                "type": "object",
                "patternProperties": {"^.*$": {"type": "array", "items": tag}},
            },
        },
        "additionalProperties": False,
    }
    assert report["optional"] == [True, False]


def test_text_is_measured_wrapped_and_cut_by_columns(report: Any) -> None:
    assert report["widths"] == [5, 1, 3, 4]
    assert report["wrapped"] == ["\x1b[4munder\x1b[24m", "\x1b[4mline\x1b[0m", "你好"]
    assert report["cut"] == "hello w\x1b[0m…\x1b[0m"
    assert report["box"] == [" one  ", " two  "]
    assert report["key"] == ["ctrl+shift+p", False]
    assert report["subclass"] == []


def test_output_is_cut_by_lines_and_bytes(report: Any) -> None:
    head, tail = report["head"], report["tail"]
    assert (head["content"], head["truncatedBy"], head["totalLines"]) == ("a\nb", "lines", 3)
    assert (tail["content"], tail["truncatedBy"], tail["lastLinePartial"]) == (
        "line",
        "bytes",
        True,
    )


def test_ludolf_answers_models_front_matter_and_costs(report: Any) -> None:
    assert report["front"] == {"frontmatter": {"name": "x"}, "body": "body"}
    one, two = {"provider": "a", "id": "one"}, {"provider": "b", "id": "two"}
    assert report["models"] == [two, [one], ["a", "b"], None]
    assert report["cost"]["total"] == 3


def test_streams_end_with_the_message_or_an_error_in_it(report: Any) -> None:
    events = ["start", "text_start", "text_delta", "text_end", "done"]
    assert report["stream"] == {"types": events, "stopReason": "stop"}
    assert report["broken"] == {
        "types": ["start", "error"],
        "stopReason": "error",
        "errorMessage": "no key",
    }
    assert report["aborted"]["stopReason"] == "aborted"
    assert report["completed"]["stopReason"] == "stop"
    assert ["complete", {"model": {"provider": "a", "id": "one"}}] in [
        [method, {"model": args["model"]}] for method, args in report["calls"] if "model" in args
    ]


def test_messages_are_converted_for_a_model(report: Any) -> None:
    texts = [message["content"] for message in report["llm"]]
    assert texts[0][0]["text"] == "Ran `ls`\n(no output)\n\nCommand exited with code 2"
    assert texts[1:] == [[{"type": "text", "text": "note"}], "hi"]
    assert report["order"] == ["first", "second"]


def test_built_in_tools_run_in_ludolf_and_operations_in_the_extension(report: Any) -> None:
    assert report["bash"] == {"content": [{"type": "text", "text": "far away\n"}]}
    assert report["exit"] == "(no output)\n\nCommand exited with code 7"
    name, output, refused = report["read"]
    assert (name, output["content"][0]["text"]) == ("read", "ran")
    assert ["run_tool", {"name": "read", "cwd": "/w", "args": {"path": "x"}}] in report["calls"]
    assert "ludolf install --pi-library" in refused


def test_a_name_of_pi_that_is_not_ours_is_undefined_with_one_warning(report: Any) -> None:
    assert report["missing"] == ["undefined", "undefined", None]
    assert report["said"] == [
        [
            "warn",
            {
                "text": 'An extension uses "SessionManager" of pi-coding-agent, which Ludolf does '
                "not provide: install pi's library with `ludolf install --pi-library`."
            },
        ]
    ]


def test_a_name_that_is_not_ours_comes_from_a_real_pi(tmp_path: Path) -> None:
    place = tmp_path / "agent/ludolf/node/node_modules/@earendil-works/pi-coding-agent"
    place.mkdir(parents=True)
    manifest = '{"name": "@earendil-works/pi-coding-agent", "type": "module", "exports": {".": '
    (place / "package.json").write_text(manifest + '{"import": "./main.js"}}}')
    (place / "main.js").write_text("export class SessionManager { static open() { return 3; } }")
    script = (
        f'const {{ default: make }} = await import("{ROOT}/src/ludolf/pi_host/modules/'
        'pi-coding-agent.mjs"); const pi = make({ tell: console.error });'
        "console.log(pi.SessionManager.open(), pi.VERSION, typeof pi.unknown)"
    )
    words = ("--input-type=module", "-e", script)
    said = run_node(*words, PI_CODING_AGENT_DIR=str(tmp_path / "agent"))
    assert said == b"3 0.87.1 undefined\n"


def test_the_list_of_our_names_is_up_to_date() -> None:
    listed = (ROOT / "src/ludolf/pi_host/modules/names.json").read_bytes()
    assert loads(run_node(str(ROOT / "scripts/make_pi_names.mjs"))) == loads(listed)
