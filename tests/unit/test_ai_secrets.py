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
        environment={"AWS_SECRET_ACCESS_KEY": "aws-aws-aws"},
    )
    assert set(secrets_in(access)) == {"key-key-key", "tok-tok-tok", "aws-aws-aws"}
