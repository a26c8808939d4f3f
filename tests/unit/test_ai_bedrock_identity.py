"""Who asks Bedrock: tokens, profiles, keys and programs, and what is said where there is none."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ludolf.ai.access import Access
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import Text
from ludolf.ai.provider import Provider
from ludolf.ai.providers.bedrock.provider import make
from tests.anthropic_wire import ask
from tests.bedrock_wire import EVENT_STREAM, answer, model, text
from tests.loopback import JSON_BODY, Canned, Loopback

SHORT = Canned(headers=EVENT_STREAM, chunks=[answer(text(0, "Hel", "lo"))])
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    transport = Transport({})
    yield make(transport)
    await transport.close()


async def test_a_bearer_token_needs_no_library(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    with Loopback(SHORT) as server:
        told = await ask(provider, server, model=model())
        signed = await ask(
            provider, server, model=model(), access=Access(base_url=server.url, environment=KEYS)
        )
    assert told.message.content == (Text(text="Hello"),)
    assert server.requests[0].headers["authorization"] == "Bearer sk-test"
    assert "pip install 'ludolf[bedrock]'" in (signed.message.error_message or "")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "access",
    [
        Access(environment={"AWS_BEDROCK_SKIP_AUTH": "1"}),
        Access(headers={"Authorization": "Basic abc"}),
    ],
)
async def test_a_request_that_needs_no_proof_is_not_signed(
    provider: Provider, access: Access
) -> None:
    with Loopback(SHORT) as server:
        told = await ask(
            provider, server, model=model(), access=access.replace(base_url=server.url)
        )
    assert told.message.error_message is None
    sent = server.requests[0].headers.get("authorization")
    assert sent == access.headers.get("Authorization")


@contextmanager
def environment(**values: str) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


async def test_without_any_credentials_it_says_which_to_set(provider: Provider) -> None:
    with Loopback(SHORT) as server, environment(AWS_EC2_METADATA_DISABLED="true"):
        told = await ask(provider, server, model=model(), access=Access(base_url=server.url))
    assert told.answer is not None
    assert told.answer.kind == "auth"
    assert "AWS_PROFILE" in (told.message.error_message or "")
    assert not server.requests


async def test_a_missing_profile_is_named(provider: Provider) -> None:
    with Loopback(SHORT) as server:
        access = Access(base_url=server.url, environment={"AWS_PROFILE": "nobody"})
        told = await ask(provider, server, model=model(), access=access)
    assert told.answer is not None
    assert told.answer.kind == "auth"
    assert "nobody" in (told.message.error_message or "")


async def test_the_profile_of_the_stored_credential_wins_over_keys_and_gives_the_region(
    provider: Provider, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[profile dev]\nregion = ap-south-1\n"
        "aws_access_key_id = AKIDPROFILE\naws_secret_access_key = s\n"
    )
    stored = {"AWS_PROFILE": "dev", "AWS_CONFIG_FILE": str(config)}
    with Loopback(SHORT) as server, environment(**KEYS):
        access = Access(base_url=server.url, environment=stored)
        told = await ask(provider, server, model=model(), access=access)
    assert told.message.error_message is None
    scope = server.requests[0].headers["authorization"]
    assert "Credential=AKIDPROFILE/" in scope
    assert "/ap-south-1/bedrock/" in scope


async def test_a_session_with_its_own_environment_never_uses_that_of_the_process(
    provider: Provider, tmp_path: Path
) -> None:
    config = tmp_path / ".aws" / "config"
    config.parent.mkdir()
    keys = "aws_access_key_id = AKID{0}\naws_secret_access_key = s\n"
    profiles = ("[default]", "[profile dev]")
    config.write_text("".join(f"{one}\n{keys.format(one[-4:-1])}" for one in profiles))
    own = {"HOME": str(tmp_path)}
    with Loopback(SHORT) as server, environment(**KEYS, AWS_PROFILE="other"):
        access = Access(base_url=server.url)
        for environ in (own, {**own, "AWS_PROFILE": "dev"}, {**own, **KEYS}):
            told = await ask(provider, server, model=model(), access=access, environ=environ)
            assert told.message.error_message is None
    used = [sent.headers["authorization"].partition("/")[0] for sent in server.requests]
    assert [one.partition("Credential=")[2] for one in used] == [
        "AKIDult",
        "AKIDdev",
        "AKIDEXAMPLE",
    ]


async def test_refused_credentials_are_looked_for_anew(provider: Provider, tmp_path: Path) -> None:
    config = tmp_path / "config"
    stored = {"AWS_PROFILE": "dev", "AWS_CONFIG_FILE": str(config)}
    denied = Canned(
        status=403,
        headers={**JSON_BODY, "x-amzn-errortype": "ExpiredTokenException"},
        chunks=[b'{"message":"expired"}'],
    )
    with Loopback(denied, SHORT) as server:
        access = Access(base_url=server.url, environment=stored)
        for key in ("AKIDOLD", "AKIDNEW"):
            config.write_text(
                f"[profile dev]\naws_access_key_id = {key}\naws_secret_access_key = s\n"
            )
            await ask(provider, server, model=model(), access=access)
    sent = [asked.headers["authorization"] for asked in server.requests]
    assert ["Credential=AKIDOLD/" in sent[0], "Credential=AKIDNEW/" in sent[1]] == [True, True]


@pytest.mark.parametrize(("minutes", "anew"), [(300, False), (5, True)])
async def test_credentials_are_kept_until_some_minutes_before_their_end(
    provider: Provider, tmp_path: Path, minutes: int, anew: bool
) -> None:
    """Those of a program: it runs for the first request, and again for each one near the end."""
    log = tmp_path / "log"
    program = tmp_path / "program.py"
    program.write_text(
        "import datetime, json\n"
        f"open({str(log)!r}, 'a').write('x')\n"
        "end = datetime.datetime.now(datetime.timezone.utc)"
        f" + datetime.timedelta(minutes={minutes})\n"
        "keys = {'AccessKeyId': 'AKIDPROGRAM', 'SecretAccessKey': 's', 'SessionToken': 't'}\n"
        "print(json.dumps({'Version': 1, **keys, 'Expiration': end.isoformat()}))\n"
    )
    config = tmp_path / "config"
    config.write_text(f"[profile dev]\ncredential_process = {sys.executable} -S {program}\n")
    stored = {"AWS_PROFILE": "dev", "AWS_CONFIG_FILE": str(config)}
    with Loopback(SHORT) as server:
        access = Access(base_url=server.url, environment=stored)
        for _ in range(2):
            told = await ask(provider, server, model=model(), access=access)
            assert told.message.error_message is None
    assert "Credential=AKIDPROGRAM/" in server.requests[1].headers["authorization"]
    assert (len(log.read_text()) > 1) is anew
