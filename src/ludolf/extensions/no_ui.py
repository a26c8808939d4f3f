"""User interfaces without a terminal, and without a host."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ludolf.extensions.host import NoticeLevel, Placement, Ui


class Degraded:
    """Methods that need a terminal; they return constants."""

    theme_error = "Theme switching not supported in RPC mode"

    async def custom(self, *args: Any, **options: Any) -> None:
        return None

    def get_editor_text(self) -> str:
        return ""

    def get_editor_component(self) -> None:
        return None

    def get_tools_expanded(self) -> bool:
        return False

    def get_all_themes(self) -> list[str]:
        return []

    def get_theme(self, name: str | None = None) -> None:
        return None

    def set_theme(self, theme: Any) -> dict[str, Any]:
        return {"success": False, "error": self.theme_error}

    def on_terminal_input(self, handler: Callable[..., Any]) -> Callable[[], None]:
        return _nothing

    def set_working_message(self, *args: Any, **options: Any) -> None: ...
    def set_working_visible(self, *args: Any, **options: Any) -> None: ...
    def set_working_indicator(self, *args: Any, **options: Any) -> None: ...
    def set_hidden_thinking_label(self, *args: Any, **options: Any) -> None: ...
    def set_footer(self, *args: Any, **options: Any) -> None: ...
    def set_header(self, *args: Any, **options: Any) -> None: ...
    def add_autocomplete_provider(self, *args: Any, **options: Any) -> None: ...
    def set_editor_component(self, *args: Any, **options: Any) -> None: ...
    def set_tools_expanded(self, *args: Any, **options: Any) -> None: ...


class NoUi(Degraded):
    """Interface of print and JSON mode: every dialog returns its default at once."""

    theme_error = "UI not available"

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None
    ) -> None:
        return None

    async def confirm(self, title: str, message: str, *, timeout: float | None = None) -> bool:
        return False

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None
    ) -> None:
        return None

    async def editor(
        self, title: str, prefill: str | None = None, *, timeout: float | None = None
    ) -> None:
        return None

    def notify(self, message: str, level: NoticeLevel | None = None) -> None: ...
    def set_status(self, key: str, text: str | None) -> None: ...
    def set_widget(
        self, key: str, lines: Sequence[str] | None, *, placement: Placement | None = None
    ) -> None: ...
    def set_title(self, title: str) -> None: ...
    def set_editor_text(self, text: str) -> None: ...
    def paste_to_editor(self, text: str) -> None: ...


def _nothing() -> None: ...


if TYPE_CHECKING:
    _proof: Ui = NoUi()
