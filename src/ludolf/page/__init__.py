"""Render a session as one HTML page, exported to a file or served live."""

from ludolf.page.html import default_name, export_html
from ludolf.page.page import page_policy, render_news, render_page
from ludolf.page.page_model import Growth, Story, read_story
from ludolf.page.summary import ToolSpecLike

__all__ = [
    "Growth",
    "Story",
    "ToolSpecLike",
    "default_name",
    "export_html",
    "page_policy",
    "read_story",
    "render_news",
    "render_page",
]
