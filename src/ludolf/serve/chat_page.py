"""The page of the server: one document that holds no data, with one style and one script."""

from functools import cache
from pathlib import Path

from ludolf.page.page import (
    empty_story_data,
    filled_frame,
    source_digest,
    story_script,
    story_style,
)

_ASSETS = Path(__file__).with_name("page")
_SCRIPTS = ("chat.js", "underway.js", "composer.js", "dialogs.js", "sessions.js")


@cache
def chat_page() -> bytes:
    """Return the document, which is the same for everyone."""
    slots = {"style": (_style(),), "script": (_script(),), "data": (empty_story_data(),)}
    return "".join(filled_frame(_asset("chat.html"), slots)).encode()


@cache
def chat_policy() -> str:
    """Return the content security policy of the page.

    It runs only its own script, connects only to this server, and shows only images that it holds.
    """
    return "; ".join(
        (
            "default-src 'none'",
            "img-src data: blob:",
            f"style-src '{source_digest(_style())}'",
            f"script-src '{source_digest(_script())}'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _style() -> str:
    return story_style() + _asset("chat.css")


def _script() -> str:
    own = "\n".join(map(_asset, _SCRIPTS))
    return f'(() => {{\n"use strict";\n{_asset("enter.js")}\n{story_script()}\n{own}}})();\n'


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")
