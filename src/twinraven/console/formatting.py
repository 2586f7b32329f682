"""Words numbers, times and JSON as people read them, and shows what would be invisible.

Whatever comes from outside is shown as text. Characters that cannot be seen or that turn a line around are shown by
their number, so that what is read is what will run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, cast
from urllib.parse import quote

from markupsafe import Markup, escape

_MOST_JSON: Final = 24_000
_WAITS: Final = frozenset({"APPROVAL_PENDING", "EFFECT_UNKNOWN"})
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")
_TOKEN: Final = re.compile(r'("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b')


def seen(text: object) -> str:
    """Return a text in which nothing is invisible and nothing turns the line around."""
    text = str(text)
    # Most texts are plain, and a page of many calls has ten thousand of them.
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", text)


def visible(value: Any) -> Any:
    """Make invisible characters of texts visible, for templates; other values stay as they are."""
    return seen(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def took(ms: float | None) -> str:
    """Return a duration."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:.0f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if minutes else f"{hours} h"


def tone(error_code: str | None) -> str:
    """Return the colour of a failed call's code; one that waits for a person did not fail."""
    return "warn" if error_code in _WAITS else "bad"


def mark(ms: float) -> str:
    """Return a place on a time axis."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:g} s"
    minutes, seconds = divmod(round(ms / 1000, 1), 60)
    return f"{minutes:.0f}:{seconds:04.1f}" if seconds % 1 else f"{minutes:.0f}:{seconds:02.0f}"


def count(number: float | None) -> str:
    """Return a whole number with its thousands apart."""
    return "–" if number is None else f"{number:,.0f}"


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float | None, places: int = 0) -> str:
    return "–" if share is None else f"{100 * share:.{places}f} %"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _full(moment: datetime) -> str:
    return f"{moment.day} {moment:%b %Y, %H:%M:%S} UTC"


def _time(text: str | None, shown: str, how: str) -> Markup:
    if text is None:
        return Markup("–")
    return Markup('<time datetime="{}" title="{}" data-how="{}">{}</time>').format(
        text, _full(_moment(text)), how, shown
    )


def day(text: str | None) -> Markup:
    """Return a moment, to the minute."""
    return _time(text, "" if text is None else f"{_moment(text).day} {_moment(text):%b %Y, %H:%M}", "day")


def clock(text: str | None) -> Markup:
    """Return a moment, to the second."""
    return _time(text, "" if text is None else f"{_moment(text).day} {_moment(text):%b %Y, %H:%M:%S}", "clock")


def ago(text: str | None) -> Markup:
    """Format the distance of a moment from now."""
    if text is None:
        return Markup("–")
    seconds = (datetime.now(UTC) - _moment(text)).total_seconds()
    gone = abs(seconds)
    if gone < 45:
        words = "moments"
    elif gone < 5_400:
        words = f"{gone / 60:.0f} min"
    elif gone < 129_600:
        words = f"{gone / 3600:.0f} h"
    else:
        words = f"{gone / 86_400:.0f} days"
    return _time(text, f"in {words}" if seconds < 0 else f"{words} ago", "ago")


def brief(value: Any, most: int = 90) -> str:
    """Arguments on one line, cut."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        text = ", ".join(f"{name}: {_short(part)}" for name, part in members.items())
    else:
        text = _short(value)
    return cut(seen(text), most)


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def exact(value: Any) -> str:
    """Return a value as JSON, for copying: every character of it."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def pretty(value: Any) -> Markup:
    """JSON with colours, cut where it is very long."""
    text = seen(exact(value))
    rest = len(text) - _MOST_JSON
    shown = Markup("").join(_painted(text[:_MOST_JSON]))
    return shown + (Markup('\n<span class="more">… {} more characters</span>').format(f"{rest:,}") if rest > 0 else "")


def _painted(text: str) -> Iterator[Markup]:
    at = 0
    for found in _TOKEN.finditer(text):
        yield escape(text[at : found.start()])
        at = found.end()
        if found[2] is not None:
            yield Markup('<span class="k">{}</span>{}').format(found[1], found[2])
        else:
            kind = "s" if found[1] is not None else "n"
            yield Markup('<span class="{}">{}</span>').format(kind, found[0])
    yield escape(text[at:])


def seg(text: object) -> Markup:
    """Return a text as one segment of a path or as a value in a query."""
    return Markup(quote(str(text), safe=""))  # noqa: S704 - quoting leaves letters, digits and percent signs


def actor(text: str) -> str:
    """Return who did something: a person by name, anything else with what it is."""
    kind, _, name = text.partition(":")
    return name if kind == "person" and name else f"{name} ({kind})" if name else text


def short(name: str) -> str:
    """Return the beginning of a long id, behind what it is of: `effect:6aec0683`."""
    kind, colon, rest = name.rpartition(":")
    return f"{kind}{colon}{rest[:8]}"


def short_ids(text: str) -> str:
    """Return a text with its long ids cut to their first characters."""
    return _ID.sub(lambda found: found[0][:8], text)


def sentence(text: str) -> str:
    """Return a text with a full stop, unless it ends with a mark of its own."""
    return text if text[-1:] in ("", ".", "!", "?", "…") else f"{text}."


def coded(text: str) -> Markup:
    """Return a text in which what stands between backticks is set as code."""
    parts = [
        Markup("<code>{}</code>").format(seen(part)) if at % 2 else escape(seen(part))
        for at, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


def spaced(text: str) -> str:
    """Return a name of a kind as words: `learned_tool.promoted` as "learned tool promoted"."""
    return text.replace(".", " ").replace("_", " ")
