"""GGUF files: headers made up here are read back; spoilt ones are refused in words."""

import asyncio
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.ai.local import FILE_API, MISSING
from ludolf.ai.local.files import DEFAULT_CONTEXT, file_model, file_models
from ludolf.ai.local.gguf import SCALARS, TEXT, GgufError, GgufHeader, read_gguf
from ludolf.ai.local.provider import MODULE, Child, ChildError, needs_fences, template_for
from ludolf.ai.local.runtime import Launch
from ludolf.base import ConfigError, dumps
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.local import can_run_files
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import choose_model

ARRAY = 9
CODER = r"""<|im_start|>system {{- "<tool_call>\n{{\"name\": <function-name>}}\n</tool_call>" }}"""
PLAIN = r"""<|im_start|>system {{- "<tool_call>\n{\"name\": <function-name>}\n</tool_call>" }}"""

Pair = tuple[str, int, Any]


def packed_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def packed(kind: int, value: Any) -> bytes:
    if kind == TEXT:
        return packed_text(value)
    if kind == ARRAY:
        inner, items = value
        head = struct.pack("<IQ", inner, len(items))
        return head + b"".join(packed(inner, item) for item in items)
    return struct.pack(SCALARS[kind], value)


def made(*pairs: Pair, version: int = 3) -> bytes:
    """The bytes of a header, and some more behind it."""
    body = b"".join(packed_text(k) + struct.pack("<I", t) + packed(t, v) for k, t, v in pairs)
    return b"GGUF" + struct.pack("<IQQ", version, 7, len(pairs)) + body + b"\0" * 64


def model_file(path: Path, template: str = "", architecture: str = "qwen2", **more: str) -> Path:
    texts = {"general.name": "A Model", "tokenizer.chat_template": template, **more}
    pairs = [
        ("general.architecture", TEXT, architecture),
        (f"{architecture}.context_length", 4, 32_768),
        ("tokenizer.ggml.tokens", ARRAY, (TEXT, ["a", "b", ""])),
        *((name, TEXT, text) for name, text in texts.items() if text),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made(*pairs))
    return path


# ---------------------------------------------------------------- reading


def test_a_header_tells_name_context_and_template(tmp_path: Path) -> None:
    header = read_gguf(model_file(tmp_path / "m.gguf", "{{ messages }}"))
    assert (header.architecture, header.name, header.context_length) == ("qwen2", "A Model", 32_768)
    assert header.template == "{{ messages }}"


_WHOLE = {
    0: st.integers(0, 255),
    1: st.integers(-128, 127),
    2: st.integers(0, 2**16 - 1),
    3: st.integers(-(2**15), 2**15 - 1),
    4: st.integers(0, 2**32 - 1),
    5: st.integers(-(2**31), 2**31 - 1),
    6: st.floats(width=32, allow_nan=False),
    7: st.booleans(),
    10: st.integers(0, 2**64 - 1),
    11: st.integers(-(2**63), 2**63 - 1),
    12: st.floats(allow_nan=False),
    TEXT: st.text(max_size=40),
}
_keys = st.text(min_size=1, max_size=20).filter(lambda key: key != "general.architecture")


def _typed(key: str) -> st.SearchStrategy[Pair]:
    scalars = st.one_of(*(st.tuples(st.just(k), values) for k, values in _WHOLE.items()))
    flat = st.one_of(*(st.tuples(st.just(k), st.lists(v, max_size=5)) for k, v in _WHOLE.items()))
    nested = st.lists(flat, max_size=3).map(lambda lists: (ARRAY, lists))
    lists = st.one_of(flat, nested).map(lambda value: (ARRAY, value))
    return st.one_of(scalars, lists).map(lambda pair: (key, *pair))


_headers = st.lists(_keys, unique=True, max_size=8).flatmap(
    lambda keys: st.tuples(*(_typed(key) for key in keys))
)


@settings(max_examples=20)
@given(pairs=_headers)
def test_whatever_a_header_holds_its_scalars_are_read_back(
    pairs: tuple[Pair, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("made") / "m.gguf"
    path.write_bytes(made(("general.architecture", TEXT, "llama"), *pairs))
    scalars = {key: value for key, kind, value in pairs if kind != ARRAY}
    assert read_gguf(path).values == {"general.architecture": "llama", **scalars}


@given(cut=st.integers(min_value=1, max_value=400))
def test_a_header_that_is_cut_anywhere_is_refused(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = made(
        ("general.architecture", TEXT, "llama"),
        ("a.list", ARRAY, (TEXT, ["x" * 30] * 4)),
        ("numbers", ARRAY, (10, [1, 2, 3])),
        ("name", TEXT, "y" * 120),
    ).rstrip(b"\0")
    path = tmp_path_factory.mktemp("cut") / "m.gguf"
    path.write_bytes(whole[: min(cut, len(whole) - 1)])
    with pytest.raises(GgufError, match=r"m\.gguf is not a"):
        read_gguf(path)


@given(data=st.binary(max_size=200), begins=st.booleans())
def test_bytes_by_chance_are_refused(
    data: bytes, begins: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("chance") / "m.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + data if begins else data)
    with pytest.raises(GgufError):
        read_gguf(path)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"PK\x03\x04" * 9, "does not begin with GGUF"),
        (made(version=1), "version 1"),
        (made(version=0x03000000), "big-endian"),
        (made(("general.name", TEXT, "x")), "architecture"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40), "claims"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60), "claims"),
    ],
)
def test_a_spoilt_file_is_refused_with_the_reason(data: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(GgufError, match=why):
        read_gguf(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"Cannot read .*nowhere\.gguf: No such file"):
        read_gguf(tmp_path / "nowhere.gguf")


# ---------------------------------------------------------------- files as models


def test_a_path_makes_a_model(tmp_path: Path) -> None:
    path = model_file(tmp_path / "my model.gguf", "{% if enable_thinking %}")
    model = file_model(str(path), os.environ)
    assert (model.provider, model.id, model.name) == ("gguf", str(path), "A Model")
    assert (model.api, model.base_url) == (FILE_API, path.as_uri())
    assert (model.context_window, model.reasoning) == (DEFAULT_CONTEXT, True)


def test_files_are_found_where_other_programs_keep_them(tmp_path: Path) -> None:
    cache = tmp_path / ".cache"
    hub = cache / "huggingface" / "hub" / "models--o--n" / "snapshots" / "abc"
    model_file(hub / "hub-q4.gguf")
    model_file(hub / "big-00001-of-00002.gguf")
    model_file(hub / "big-00002-of-00002.gguf")
    model_file(hub / "mmproj-f16.gguf")
    model_file(hub / "embed.gguf", architecture="nomic-bert")
    model_file(tmp_path / ".lmstudio" / "models" / "org" / "repo" / "studio.gguf")
    model_file(cache / "llama.cpp" / "org_repo.gguf")
    (cache / "llama.cpp" / "broken.gguf").write_bytes(b"no")
    store = tmp_path / ".ollama" / "models"
    model_file(store / "blobs" / "sha256-12ab")
    manifest = store / "manifests" / "registry.ollama.ai" / "library" / "qwen3" / "8b"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:12ab"}
    manifest.write_bytes(dumps({"layers": [{"mediaType": "x", "digest": "y"}, layer]}))
    environ = {"HOME": str(tmp_path)}
    names = {model.id for model in file_models(environ)}
    assert names == {"hub-q4", "big", "studio", "org_repo", "qwen3:8b"}
    assert file_model("QWEN3:8b", environ).base_url.endswith("/blobs/sha256-12ab")


def test_a_name_that_is_nowhere_tells_where_was_looked(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"called \"zebra\"\. Looked in: .*llama\.cpp"):
        file_model("zebra", {"HOME": str(tmp_path)})


@pytest.mark.skipif(can_run_files(), reason="the extra `local` is installed")
def test_without_the_extra_the_way_to_install_it_is_told(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "models.json", Keyring(tmp_path / "auth.json", os.environ))
    path = model_file(tmp_path / "m.gguf")
    with pytest.raises(ConfigError, match=r"pip install 'ludolf\[local\]'"):
        choose_model(registry, str(path))
    assert "ludolf[local]" in MISSING


@pytest.mark.parametrize("pattern", ["{path}", "gguf/{path}", "{path}:high"])
def test_a_spoilt_file_is_refused_when_it_is_asked_for(pattern: str, tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "models.json", Keyring(tmp_path / "auth.json", os.environ))
    path = tmp_path / "m.gguf"
    path.write_bytes(b"nothing of use")
    with pytest.raises(ConfigError, match="does not begin with GGUF"):
        choose_model(registry, pattern.format(path=path))


# ---------------------------------------------------------------- templates


@pytest.mark.parametrize(
    ("architecture", "template", "fences"),
    [
        ("qwen2", CODER, True),
        ("qwen2", PLAIN, False),
        ("llama", CODER, False),
        ("qwen2", "", False),
    ],
)
def test_only_models_known_to_write_fences_get_our_template(
    architecture: str, template: str, fences: bool
) -> None:
    header = GgufHeader(architecture=architecture, template=template)
    assert needs_fences(header) is fences
    text = template_for(header)
    assert (text is not None and "```json" in text) is fences


def test_the_choice_of_the_template_can_be_overruled(tmp_path: Path) -> None:
    coder = GgufHeader(architecture="qwen2", template=CODER)
    own = tmp_path / "t.jinja"
    own.write_text("mine")
    assert template_for(coder, "own") is None
    assert template_for(coder, str(own)) == "mine"
    assert template_for(GgufHeader(architecture="llama"), "fenced") is not None
    with pytest.raises(GgufError, match="chat template"):
        template_for(coder, str(tmp_path / "nowhere"))


# ---------------------------------------------------------------- the child


def _order(model: str) -> Launch:
    return Launch(model=model, key="k", context=512, parent=os.getpid())


@pytest.mark.skipif(can_run_files(), reason="the extra `local` is installed")
async def test_a_child_that_cannot_load_says_why_and_is_gone() -> None:
    with pytest.raises(ChildError, match=r"cannot load /nowhere\.gguf: No module named"):
        await Child.start(_order("/nowhere.gguf"), os.environ)


async def test_a_child_that_takes_too_long_is_ended() -> None:
    with pytest.raises(ChildError, match="was not loaded within 0 s"):
        await Child.start(_order("/nowhere.gguf"), os.environ, seconds=0)
    assert not any(map(_runs_a_model, _children()))


async def test_who_stops_waiting_for_a_child_ends_it() -> None:
    born: set[str] = set()
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(Child.start(_order("/nowhere.gguf"), os.environ))
        while not born:
            await asyncio.sleep(0)  # nothing tells of a child's birth
            born = set(filter(_runs_a_model, _children()))
        loading.cancel()
    assert loading.cancelled()
    assert not born & _children()


def _children() -> frozenset[str]:
    """Ours now; what other tests of this process have left may come and go among them."""
    return frozenset(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _runs_a_model(pid: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has gone meanwhile
        return False
    return MODULE.encode() in words


def test_the_child_sees_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    from ludolf.ai.local.provider import _environment

    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    seen: Mapping[str, str] = _environment(os.environ)
    assert "secret" not in seen.values()
    assert "PYTHONPATH" in seen


# ---------------------------------------------------------------- odd files


def test_a_pipe_and_a_device_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "zero.gguf").symlink_to("/dev/zero")
    for name in ("pipe.gguf", "zero.gguf"):
        with pytest.raises(GgufError, match="not a regular file"):
            file_model(str(tmp_path / name), os.environ)


def test_a_manifest_that_is_a_pipe_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "ollama" / "manifests" / "registry" / "library" / "qwen"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "latest")
    assert file_models({"HOME": str(tmp_path), "OLLAMA_MODELS": str(tmp_path / "ollama")}) == ()


def test_a_list_that_claims_a_hundred_million_texts_is_not_walked(tmp_path: Path) -> None:
    data = made(("general.architecture", TEXT, "llama"))
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + data[24:-64]
    head += packed_text("tokens") + struct.pack("<IIQ", 9, TEXT, 100_000_000)
    path = tmp_path / "evil.gguf"
    path.write_bytes(head)
    os.truncate(path, 900_000_000)
    with pytest.raises(GgufError, match="lists claim"):
        read_gguf(path)
