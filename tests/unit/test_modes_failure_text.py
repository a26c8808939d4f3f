"""The sentence that print mode writes for a failed answer."""

import pytest

from ludolf.ai.failure_text import failure_text
from ludolf.ai.messages import AssistantMessage, StopReason, Usage


def _say(text: str | None, *, stop: StopReason = "error", provider: str = "anthropic") -> str:
    return failure_text(
        AssistantMessage(
            content=(),
            api="anthropic-messages",
            provider=provider,
            model="claude-sonnet-5",
            usage=Usage(),
            stop_reason=stop,
            timestamp=0,
            error_message=text,
        ),
        option="--model",
    )


NAME = "Error from anthropic/claude-sonnet-5:"
CHECK_KEY = 'Check the key with "ludolf auth status anthropic".'
LATER = "Try again later, or choose another model with --model."
SHOW = 'Check the model and its address with "ludolf models show anthropic/claude-sonnet-5".'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '401 {"type":"error","error":{"type":"authentication_error",'
            '"message":"invalid x-api-key"},"request_id":"req_1"}',
            f"{NAME} invalid x-api-key (401). {CHECK_KEY}",
        ),
        (
            "401 Incorrect API key provided: [redacted].",
            f"{NAME} Incorrect API key provided: [redacted] (401). {CHECK_KEY}",
        ),
        (
            '{"error":{"code":403,"message":"Permission denied","status":"PERMISSION_DENIED"}}',
            f"{NAME} Permission denied (403). {CHECK_KEY}",
        ),
        (
            "OpenAI API error (404): 404 The model `x` does not exist",
            f"{NAME} The model `x` does not exist (404). {SHOW}",
        ),
        (
            "404 <html><head><title>404 Not Found</title></head></html>",
            f"{NAME} the server sent a web page (404 Not Found) (404). {SHOW}",
        ),
        (
            'Mistral API error (429): {"message":"Requests rate limit exceeded"}',
            f"{NAME} Requests rate limit exceeded (429). "
            "Wait, or choose another model with --model.",
        ),
        (
            '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
            f"{NAME} Overloaded (529). {LATER}",
        ),
        ("terminated", f"{NAME} the connection broke before the answer was complete. {LATER}"),
        (
            "Connection error: Connect call failed ('127.0.0.1', 1) (http://127.0.0.1:1)",
            f"{NAME} the server at http://127.0.0.1:1 refused the connection. "
            'Start the server, or correct "baseUrl" in models.json.',
        ),
        (
            "Connection error: Connect call failed ('192.0.2.1', 1) (http://192.0.2.1:1)",
            f"{NAME} the server at http://192.0.2.1:1 refused the connection. "
            "Check that it runs, and the network.",
        ),
        (
            'Cannot reach Ollama at http://127.0.0.1:11434. Start it with "ollama serve".',
            f'{NAME} Cannot reach Ollama at http://127.0.0.1:11434. Start it with "ollama serve".',
        ),
        ('400 {"oops":1}', f"{NAME} no message (400)."),
        ("400 " + "x" * 900, f"{NAME} {'x' * 299}… (400)."),
        ("Internal error: KeyError: 'x'", "Error: Internal error: KeyError: 'x'"),
    ],
)
def test_an_error_names_model_cause_and_next_step(text: str, said: str) -> None:
    assert _say(text) == said


def test_an_aborted_answer_is_not_blamed_on_the_provider() -> None:
    assert _say("Request was aborted", stop="aborted") == "Error: Request was aborted"
    assert _say(None, stop="aborted") == "Error: Request aborted"
