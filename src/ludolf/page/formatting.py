"""Format numbers, costs and times for the page."""

import math

from ludolf.ai.messages import Usage
from ludolf.base import iso_time
from ludolf.base.patterns import lazy_pattern
from ludolf.page.text import content

_ISO = lazy_pattern(r"[1-9][0-9]{3}(?:-[0-9]{2}){2}T[0-9]{2}(?::[0-9]{2}){2}\.[0-9]{3}Z\Z")


def tokens(count: float) -> str:
    """Format a number of tokens: 950, 1.2k, 34k, 1.2M."""
    if 0 <= count < 1000:
        return str(count) if isinstance(count, int) else f"{count:.0f}"
    if not count < 1e15:
        return "?"
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 10 else f"{value:,.0f}{unit}"
    return f"{count:.0f}"


def dollars(amount: float) -> str:
    """Format a cost with its significant digits."""
    if not math.isfinite(amount):
        return "?"
    if amount == 0 or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.3f}" if amount >= 0.01 else f"${amount:.4f}"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def stamp(text: str, moment: int) -> str:
    """Render a time element; the page's script converts it to local time.

    `moment` is the time in Unix milliseconds, or 0 if the text is not a time.
    """
    if not moment:
        return f'<span class="when">{content(text[:40])}</span>'
    # Entries are written in this form, which needs no conversion.
    return _time_element(text) if _ISO.match(text) else time_element(moment)


def time_element(ms: int) -> str:
    return _time_element(iso_time(ms))


def _time_element(iso: str) -> str:
    shown = f"{iso[:10]} {iso[11:16]} UTC"
    return f'<time class="when" datetime="{iso}">{shown}</time>'


def duration(ms: int) -> str:
    """Format a duration: 40 s, 12 min, 3 h 05 min, 2 d 4 h."""
    seconds = max(0, ms) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 60:
        return f"{seconds} s"
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{days} d {hours % 24} h"


def spent_line(usage: Usage, *, context: bool = True) -> str:
    """Format tokens and cost of one answer."""
    line = f"{tokens(usage.input)} in · {tokens(usage.output)} out"
    if usage.cache_read:
        line += f" · {tokens(usage.cache_read)} cached"
    if usage.cache_write:
        line += f" · {tokens(usage.cache_write)} to cache"
    if context:
        line += f" · context {tokens(usage.context)}"
    if usage.cost.total:
        line += f" · {dollars(usage.cost.total)}"
    return line
