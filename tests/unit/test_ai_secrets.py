"""Keys do not come back in texts."""

import base64

import pytest

from ludolf.ai.access import Access
from ludolf.ai.record.scrubbing import Scrubber
from ludolf.ai.secrets import HIDDEN, redact, secrets_in

KEY = "sk-test-0123456789abcdefghijklmnop"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"bad key {KEY}!", f"bad key {HIDDEN}!"),
        (f"{KEY} and {KEY}", f"{HIDDEN} and {HIDDEN}"),
        (f"cut off: {KEY[:20]}… see", f"cut off: {HIDDEN}… see"),
        (f"{KEY}x{KEY[:16]}", f"{HIDDEN}x{HIDDEN}"),
        ("sk-test- is how keys begin", "sk-test- is how keys begin"),
        ("", ""),
    ],
)
def test_a_key_is_hidden_whole_or_cut(text: str, expected: str) -> None:
    assert redact(text, [KEY], {}) == expected


def test_what_is_too_short_for_a_key_is_no_secret() -> None:
    assert redact("a key of x", ["", "x", "key"], {}) == "a key of x"


def test_a_secret_within_another_leaves_nothing_of_it() -> None:
    assert redact(f"<{KEY}>", [KEY[:12], KEY], {}) == f"<{HIDDEN}>"


def test_all_that_lets_a_request_in_is_secret_and_the_rest_is_not() -> None:
    access = Access(
        key="key-key-key",
        headers={"Authorization": "Bearer tok-tok-tok", "User-Agent": "somebody/1.0"},
        environment={"AWS_SECRET_ACCESS_KEY": "aws-aws-aws", "AWS_REGION": "eu-central-1"},
    )
    found = set(secrets_in(access, "https://me:pass-pass@gate.example/v1?code=code-code-code"))
    assert found >= {"key-key-key", "tok-tok-tok", "aws-aws-aws", "pass-pass", "code-code-code"}
    assert not found & {"somebody/1.0", "eu-central-1"}


def test_a_password_in_an_address_is_hidden_however_short() -> None:
    text = "Connection error: refused (http://me:pw@gate.example)"
    assert redact(text, (), {}) == f"Connection error: refused (http://{HIDDEN}@gate.example)"


ENCODED = {
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of the header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 of a login": base64.b64encode(f"ab:{KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
    "upper": KEY.upper(),
    "reversed": KEY[::-1],
    "short of its end": KEY[:-3],
    "short of its beginning": KEY[3:],
    "its first half": KEY[:17],
    "its second half": KEY[17:],
    "its middle": KEY[9:28],
}


@pytest.mark.parametrize("form", ENCODED)
def test_a_key_is_hidden_in_part_and_encoded_for_errors_and_recordings(form: str) -> None:
    text = f"error: <{ENCODED[form]}>"
    cleaned = (
        redact(text, [KEY], {}),
        Scrubber([KEY], HIDDEN).value({"a": [text]})["a"][0],
        Scrubber([KEY], HIDDEN).chunks([text.encode()])[0].decode(),
    )
    for each in cleaned:
        assert HIDDEN in each
        left = each.replace(HIDDEN, "").removeprefix("error: <")
        assert len(left) < 16, each


def test_a_value_cut_between_chunks_is_hidden() -> None:
    data = f"one {KEY[:-2]} two".encode()
    assert Scrubber([KEY], HIDDEN).chunks([data[:10], data[10:]]) == [b"one [redacted]", b" two"]


def test_a_path_or_text_is_only_hidden_whole() -> None:
    path = "/home/ada/project/service-account-1.json"
    other = "/home/ada/project/service-account-2.json"
    assert redact(f"{path} {other}", [path], {}) == f"{HIDDEN} {other}"


def test_the_cost_does_not_grow_with_values_that_repeat_themselves() -> None:
    value = "a1" * 2000
    assert len(redact("a1" * 100_000, [value], {}).replace(HIDDEN, "")) < 12
