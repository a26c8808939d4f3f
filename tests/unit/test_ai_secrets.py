"""Keys do not come back in texts."""

import pytest

from ludolf.ai.access import Access
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
    assert redact(text, [KEY]) == expected


def test_what_is_too_short_for_a_key_is_no_secret() -> None:
    assert redact("a key of x", ["", "x", "key"]) == "a key of x"


def test_a_secret_within_another_leaves_nothing_of_it() -> None:
    assert redact(f"<{KEY}>", [KEY[:12], KEY]) == f"<{HIDDEN}>"


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
    assert redact(text, ()) == f"Connection error: refused (http://{HIDDEN}@gate.example)"
