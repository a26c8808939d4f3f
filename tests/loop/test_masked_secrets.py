"""Masked secrets: what models are sent, and which values tools get back."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps
from tests.loop.stage import Stage, call, calls, say, stage

ON = {"mask_secrets": True}
VALUE = "Zq7plain01Xv9Lm"
LOGIN = {"type": "oauth", "access": "oat-ACCESS-0001", "refresh": "ort-REFRESH-0002"}
KEYS = {
    "ANTHROPIC_ACCESS": "oat-ACCESS-0001",
    "ANTHROPIC_REFRESH": "ort-REFRESH-0002",
    "OPENAI_KEY": "sk-STORED-0000003",
    "GEMINI_API_KEY": "gm-ENV-000000004",
    "ANTHROPIC_ACCESS_BASE64": "b2F0LUFDQ0VTUy0wMDAx",
}


def _mask(name: str) -> str:
    return f"__LUDOLF_SECRET_{name}__"


def _work(root: Path, **files: str | bytes) -> Path:
    """The working folder with these files."""
    work = root / "work"
    for name, content in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    work.mkdir(exist_ok=True)
    return work


def _sent(here: Stage) -> str:
    """All that the model was sent."""
    parts = [(r.system, r.messages, r.tools) for r in here.script.requests]
    return dumps(parts).decode()


def _results(here: Stage) -> list[str]:
    ended = [frame["result"] for frame in here.of_type("tool_execution_end")]
    return ["".join(part.get("text", "") for part in result["content"]) for result in ended]


async def _show(root: Path, text: str) -> str:
    """What a model is sent of a text while secrets are masked."""
    async with stage(root, say("Done."), options=ON) as here:
        await here.run(text)
        return str(json.loads(_sent(here))[0][1][0]["content"][0]["text"])


# ---------------------------------------------------------------- credentials


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("tool", ["bash", "write", "edit", "echo"])
async def test_no_tool_gets_a_credential(
    name: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEYS["GEMINI_API_KEY"])
    work = _work(tmp_path, file="x")
    entries = {
        "anthropic": {**LOGIN, "expires": 4 * 10**12},
        "openai": {"type": "api_key", "key": KEYS["OPENAI_KEY"]},
    }
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "auth.json").write_text(json.dumps(entries))
    inside = f"a{_mask(name)}b"
    every: dict[str, dict[str, Any]] = {
        "bash": {"command": f"echo {inside} > file"},
        "write": {"path": "file", "content": inside},
        "edit": {"path": "file", "edits": [{"oldText": "x", "newText": inside}]},
        "echo": {"name": inside},
    }
    reply = calls(call(tool, "c1", **every[tool]))
    async with stage(tmp_path, reply, say("."), options=ON) as here:
        await here.run("Go")
    (result,) = _results(here)
    assert (
        result
        == f"{_mask(name)} stands for a credential that tools cannot use. Continue without it."
    )
    assert (work / "file").read_text() == "x"


async def test_a_credential_stays_one_where_a_variable_or_a_file_holds_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", VALUE)
    monkeypatch.setenv("ANOTHER_TOKEN", VALUE)
    _work(tmp_path, **{".env": f"THIRD_TOKEN={VALUE}\n"})
    names = ("GEMINI_API_KEY", "ANOTHER_TOKEN", "THIRD_TOKEN")
    tries = [call("echo", name, name=_mask(name)) for name in names]
    async with stage(tmp_path, calls(*tries), say("."), options=ON) as here:
        await here.run(VALUE)
    assert VALUE not in _sent(here) + "".join(_results(here))


# ---------------------------------------------------------------- values in calls


async def test_plain_values_are_put_into_every_tool_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", VALUE)
    inside = f"a{_mask('DEPLOY_TOKEN')}{_mask('DEPLOY_TOKEN')}b {_mask('UNKNOWN')}"
    pieces = (call("echo", "c1", name=inside), call("bash", "c2", command=f"echo {inside}"))
    async with stage(tmp_path, calls(*pieces), say("."), options=ON) as here:
        await here.run("Go")
    assert {result.strip() for result in _results(here)} == {f"a{VALUE}{VALUE}b {_mask('UNKNOWN')}"}
    assert VALUE not in _sent(here)


@pytest.mark.parametrize(
    "value",
    [
        "x; touch ../PWNED; #",
        "$(touch PWNED)",
        "`touch PWNED`",
        "-oProxyCommand=x",
        "a b c d e f",
        "x\ntouch PWNED",
        "'; touch PWNED '",
        "@/etc/passwd",
        "~/.ssh/id_rsa",
        "x&&touch-PWNED",
        "*.{a,b,c,d}",
    ],
)
@pytest.mark.parametrize("tool", ["bash", "write"])
async def test_a_value_with_a_meaning_in_shells_is_in_no_call(
    value: str, tool: str, tmp_path: Path
) -> None:
    quoted = value.replace("\n", "\\n")
    work = _work(tmp_path, **{".env": f'BUILD_TOKEN="{quoted}"\n'})
    text = f"make TOKEN={_mask('BUILD_TOKEN')}"
    args = {"command": text} if tool == "bash" else {"path": "run.sh", "content": text}
    async with stage(tmp_path, calls(call(tool, "c1", **args)), say("."), options=ON) as here:
        await here.run("Go")
    (result,) = _results(here)
    assert "cannot be put into a call" in result
    assert "Let the program read BUILD_TOKEN of .env instead." in result
    assert not list(tmp_path.rglob("PWNED"))
    assert not (work / "run.sh").exists()


async def test_a_placeholder_within_a_value_is_not_replaced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTER_TOKEN", _mask("INNER_TOKEN"))
    monkeypatch.setenv("INNER_TOKEN", VALUE)
    replies = calls(call("echo", "c1", name=_mask("OUTER_TOKEN"))), say(".")
    async with stage(tmp_path, *replies, options=ON) as here:
        await here.run("Go")
    assert VALUE not in _results(here)[0]


async def test_what_a_link_leads_to_elsewhere_is_masked_and_in_no_call(tmp_path: Path) -> None:
    work = _work(tmp_path)
    (tmp_path / "credentials").write_text(f"aws_secret = {VALUE}\n")
    (work / ".env").symlink_to(tmp_path / "credentials")
    replies = calls(call("echo", "c1", name=_mask("AWS_SECRET"))), say(".")
    async with stage(tmp_path, *replies, options=ON) as here:
        await here.run(VALUE)
    assert VALUE not in _sent(here) + _results(here)[0]


async def test_a_value_that_is_gone_stays_masked_and_is_in_no_call(tmp_path: Path) -> None:
    work = _work(tmp_path, **{".env": f"BUILD_TOKEN={VALUE}\n"})
    replies = (
        calls(call("bash", "c1", command="cat .env; rm .env")),
        calls(call("echo", "c2", name=_mask("BUILD_TOKEN"))),
        say("."),
    )
    async with stage(tmp_path, *replies, options=ON) as here:
        await here.run("Go")
        (work / ".env").write_text("BUILD_TOKEN=another-value-2\n")
        here.script.add(say("."))
        await here.run("another-value-2")
    assert VALUE in _results(here)[0]
    assert "not in the environment or the folder any more" in _results(here)[1]
    assert VALUE not in _sent(here)
    assert "another-value-2" not in _sent(here)


# ---------------------------------------------------------------- what is known

FILES = {
    "plain": "A_TOKEN={}",
    "comment": "A_TOKEN={} # for ci",
    "comment without a blank": "A_TOKEN={}#for-ci",
    "quoted with a comment": 'A_TOKEN="{}" # ci',
    "single quotes": "A_TOKEN='{}'",
    "backticks": "A_TOKEN=`{}`",
    "blanks": "A_TOKEN = {}",
    "export": "export A_TOKEN={}",
    "several on a line": "export B=1 A_TOKEN={} C=2; run",
    "colon": "A_TOKEN: {}",
    "yaml": "env:\n  - A_TOKEN: '{}'",
    "json": '{{"aToken": "{}"}}',
    "lines": 'A_KEY="first-line-1\n{}\nlast"',
    "escaped line ends": 'A_KEY="first-line-1\\n{}\\nlast"',
    "semicolon": "A_TOKEN='{}';",
    "carriage return": "A_TOKEN={}\r\nB=1\r\n",
    "commented out": "# A_TOKEN={}",
    "mark at the beginning": "\ufeffA_TOKEN={}",
    "camel case": "dbPassword={}",
    "behind much else": "#" * 70_000 + "\nA_TOKEN={}",
    "address": "DATABASE_URL=postgres://u:{}@h/db",
    "token in an address": "REPO=https://x-access-token:{}@git.example/r",
    "query": "HOOK=https://h.example/x?token={}&a=1",
    "connection string": 'DB="Server=h;Password={};Timeout=3"',
}


@pytest.mark.parametrize("form", FILES)
async def test_values_of_env_files_are_masked_as_programs_use_them(
    form: str, tmp_path: Path
) -> None:
    _work(tmp_path, **{".env": FILES[form].format(VALUE)})
    shown = await _show(tmp_path, f"used: {VALUE}, file: {FILES[form].format(VALUE)[-200:]}")
    assert VALUE not in shown
    assert "__LUDOLF_SECRET_" in shown.partition(", file")[0]


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ('A_TOKEN="a-long\\"value"', 'a-long"value'),
        ("A_TOKEN='a-long'\"-value\"", "a-long-value"),
        ("A_TOKEN=a\\ long\\ value", "a long value"),
        ("A_TOKEN=a long value # comment", "a long value"),
        ("A_TOKEN=a-long#value", "a-long#value"),
        ("B=prefix\nA_TOKEN=${B}-value", "prefix-value"),
        ("A_TOKEN=${NOT_SET:-a-default}-value", "a-default-value"),
        ("A_TOKEN='it\\'s a value'", "it's a value"),
    ],
)
async def test_quotes_escapes_and_variables_are_understood(
    line: str, used: str, tmp_path: Path
) -> None:
    _work(tmp_path, **{".env": line})
    shown = await _show(tmp_path, f"<{used}>")
    assert shown.startswith("<__LUDOLF_SECRET_A_TOKEN")
    assert shown.endswith("__>")


@pytest.mark.parametrize(
    "name", [".env", ".env.local", ".envrc", "prod.env", "app/.env", "a/b/c/d/.env"]
)
async def test_files_of_the_folder_and_below_count(name: str, tmp_path: Path) -> None:
    _work(tmp_path, **{name: f"A_TOKEN={VALUE}\n", ".env.example": "A_TOKEN=put-your-token-here"})
    assert await _show(tmp_path, f"{VALUE} put-your-token-here") == (
        f"{_mask('A_TOKEN')} put-your-token-here"
    )


async def test_utf_16_is_read(tmp_path: Path) -> None:
    _work(tmp_path, **{".env": f"A_TOKEN={VALUE}\r\n".encode("utf-16")})
    assert await _show(tmp_path, VALUE) == _mask("A_TOKEN")


@pytest.mark.parametrize("kind", ["large", "pipe", "values"])
async def test_a_file_that_cannot_be_masked_is_reported_once(kind: str, tmp_path: Path) -> None:
    work = _work(tmp_path)
    if kind == "pipe":
        os.mkfifo(work / ".env")
    else:
        (work / ".env").write_text("#" * (2**20 + 1) if kind == "large" else "A=x\n" * 5001)
    async with stage(tmp_path, say("."), say("."), options=ON) as here:
        await here.run("Go")
        await here.run("Go")
    reports = [text for text in map(str, here.frames) if "are not masked" in text]
    assert len(reports) == 1


SECRET = 'p@ss/wörd+"quote"'
FORMS = {
    "itself": SECRET,
    "json": json.dumps(SECRET)[1:-1],
    "json in utf-8": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "address": "p%40ss/w%C3%B6rd%2B%22quote%22",
    "address, all": "p%40ss%2Fw%C3%B6rd%2B%22quote%22",
    "base64": "cEBzcy93w7ZyZCsicXVvdGUi",
    "base64 within": "OnBAc3Mvd8O2cmQrInF1b3RlIg==",  # of `:` and the value
}


@pytest.mark.parametrize("form", FORMS)
async def test_encoded_values_are_masked(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    shown = await _show(tmp_path, f"<{FORMS[form]}>")
    assert "__LUDOLF_SECRET_DB_PASSWORD" in shown
    assert FORMS[form] not in shown


async def test_a_password_of_an_address_is_masked_as_written_and_as_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://u:Pw%40secret1@h/db")
    name = "DATABASE_URL_PASSWORD"
    assert await _show(tmp_path, "Pw%40secret1 Pw@secret1") == f"{_mask(name)} {_mask(name + '_2')}"


PEM = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA1\nq83vEjRWeJq83vEjR\n-----END KEY-----\n"


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("\n", "\r\n"),
        PEM.replace("\n", "\n    "),
        PEM.replace("\n", "\\n"),
        "+q83vEjRWeJq83vEjR",
        "  2\tMIIEowIBAAKCAQEA1",
    ],
)
async def test_values_of_several_lines_are_masked_line_by_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_PRIVATE_KEY", PEM)
    shown = await _show(tmp_path, text)
    assert "MIIE" not in shown
    assert "q83v" not in shown


async def test_a_placeholder_in_a_text_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "DEPLOY_TOKEN")
    monkeypatch.setenv("B_KEY", "LUDOLF_SECRET")
    monkeypatch.setenv("DEPLOY_TOKEN", VALUE)
    assert await _show(tmp_path, f"{_mask('DEPLOY_TOKEN')} {VALUE}") == (
        f"{_mask('DEPLOY_TOKEN')} {_mask('DEPLOY_TOKEN')}"
    )


async def test_names_within_arguments_are_masked_and_schemas_stay_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", VALUE)
    monkeypatch.setenv("OTHER_TOKEN", "properties")
    async with stage(
        tmp_path, calls(call("echo", "c1", **{VALUE: 1})), say("."), options=ON
    ) as here:
        await here.run("Go")
    assert VALUE not in _sent(here)
    assert here.script.requests[0].tools[0].parameters["properties"]
