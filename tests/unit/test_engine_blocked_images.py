"""Images that a setting keeps from models."""

from ludolf.ai.messages import Image, Text, ToolResultMessage, UserMessage
from ludolf.engine.run.requests import NOTE, ImageBlock

PICTURE = Image(data="AA==", mime_type="image/png")


def test_neighbouring_images_become_one_note() -> None:
    said = UserMessage(content=(Text(text="look"), PICTURE, PICTURE), timestamp=1)
    (shown,) = ImageBlock().apply([said])
    assert isinstance(shown, UserMessage)
    assert shown.content == (Text(text="look"), Text(text=NOTE))


def test_the_same_message_gives_the_same_copy_each_time() -> None:
    block = ImageBlock()
    result = ToolResultMessage(
        tool_call_id="c", tool_name="read", content=(PICTURE,), is_error=False, timestamp=1
    )
    assert block.apply([result])[0] is block.apply([result])[0]


def test_a_message_without_images_is_left_as_it_is() -> None:
    plain = UserMessage(content="hello", timestamp=1)
    assert ImageBlock().apply([plain]) == (plain,)
