"""Render a session as one HTML page, exported to a file or served live."""

from ludolf.page.html import default_name, export_html
from ludolf.page.page import (
    empty_story_data,
    filled_frame,
    page_policy,
    render_news,
    render_page,
    source_digest,
    story_script,
    story_style,
)
from ludolf.page.page_model import Growth, Story, read_story
from ludolf.page.summary import ToolSpecLike

__all__ = [
    "Growth",
    "Story",
    "ToolSpecLike",
    "default_name",
    "empty_story_data",
    "export_html",
    "filled_frame",
    "page_policy",
    "read_story",
    "render_news",
    "render_page",
    "source_digest",
    "story_script",
    "story_style",
]
