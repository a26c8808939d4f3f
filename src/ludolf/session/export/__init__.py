"""The session as a page: one HTML file that people read, search and keep, or watch growing."""

from ludolf.session.export.growth import Growth, read_story
from ludolf.session.export.html import default_name, export_html
from ludolf.session.export.news import render_news
from ludolf.session.export.page import page_policy, render_page
from ludolf.session.export.story import Story
from ludolf.session.export.summary import ToolSpecLike

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
