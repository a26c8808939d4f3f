"""The session as a page: one HTML file that people read, search and keep."""

from ludolf.session.export.html import default_name, export_html
from ludolf.session.export.page import render_page
from ludolf.session.export.story import Story, read_story
from ludolf.session.export.summary import ToolSpecLike

__all__ = ["Story", "ToolSpecLike", "default_name", "export_html", "read_story", "render_page"]
