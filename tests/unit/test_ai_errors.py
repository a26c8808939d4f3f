"""Failures of providers, sorted by their own words."""

import time
from email.utils import formatdate

import pytest

from ludolf.ai.errors import RETRYABLE, ErrorKind, ProviderError, is_overflow, kind_of, retry_after

OVERFLOWS = [
    "400 prompt is too long: 213462 tokens > 200000 maximum",
    "request_too_large",
    "Input is too long for requested model",
    "Your input exceeds the context window of this model.",
    "This model's maximum context length is 128000 tokens. However, you asked for more",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "maximum prompt length is 131072",
    "Please reduce the length of the messages",
    "exceeds maximum allowed input length of 5 tokens",
    "the input (9 tokens) is longer than the model's context length",
    "exceeds the limit of 8192",
    "the request exceeds the available context size",
    "tokens to keep is greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with 4096 maximum context length",
    "prompt has 9 tokens, but the configured context size is 8",
    "model_context_window_exceeded",
    "prompt too long; exceeded max context length by 4 tokens",
    "Range of input length should be [1, 8]",
    "context_length_exceeded",
    "context length exceeded",
    "too many tokens",
    "token limit exceeded",
    "400 status code (no body)",
    "413 status code (no body)",
]
KINDS: list[tuple[str, ErrorKind]] = [
    ("429 rate limit of 50 requests per minute", "rate_limit"),
    ("Too many requests", "rate_limit"),
    ("RESOURCE_EXHAUSTED: retry delay 4s", "rate_limit"),
    ("Request timed out", "timeout"),
    ("socket time-out", "timeout"),
    ("529 Overloaded", "overloaded"),
    ("The model is currently experiencing high demand", "overloaded"),
    ("503", "overloaded"),
    ("Internal error", "overloaded"),
    ("Connection error: refused", "network"),
    ("terminated", "network"),
    ("Stream ended without finish_reason", "network"),
    ("Anthropic stream ended before message_stop", "network"),
    ("getaddrinfo failed", "network"),
    ("401 invalid x-api-key", "auth"),
    ("No API key for provider: x", "auth"),
    ("400 messages: at least one message is required", "bad_request"),
    ("429 insufficient_quota", "bad_request"),
    ("400 credit balance is too low. Please go to Plans & Billing", "bad_request"),
    ("GoUsageLimitError: 429", "bad_request"),
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_a_request_larger_than_the_context_is_told_from_other_errors(text: str) -> None:
    assert is_overflow(text)
    assert kind_of(text) == "overflow"


@pytest.mark.parametrize(
    "text",
    [
        "Throttling error: too many tokens, wait",
        "Service unavailable: exceeds the context window",
        "rate limit: too many tokens per minute",
        "Too many requests, too many tokens",
        "500 Internal server error",
    ],
)
def test_a_busy_server_is_no_overflow(text: str) -> None:
    assert not is_overflow(text)
    assert kind_of(text) in RETRYABLE


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_the_words_of_a_provider_give_the_kind(text: str, kind: ErrorKind) -> None:
    assert ProviderError(text).kind == kind


def test_a_named_kind_wins_over_the_words() -> None:
    error = ProviderError("429", kind="refused", retry_after=3.0)
    assert (error.kind, error.retry_after, str(error)) == ("refused", 3.0, "429")


def test_what_another_try_cannot_mend_is_not_tried_again() -> None:
    assert RETRYABLE.isdisjoint({"overflow", "auth", "bad_request", "refused"})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_a_wait_may_be_given_as_a_date() -> None:
    wait = retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert wait is not None
    assert 55 < wait <= 60
