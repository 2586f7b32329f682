"""Writes the pieces of a picture: escaped text, attributes, links and boxes."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape

from twinraven.console.formatting import seen

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def safe(text: object) -> Markup:
    """Return a text that is well-formed in markup, whatever is in it."""
    return escape(_FORBIDDEN.sub("\ufffd", seen(text)))


def label(x: float, y: float, text: object, kind: str = "") -> str:
    """Return a text at a place."""
    css = f' class="{kind}"' if kind else ""
    return f'<text{css} x="{x:.1f}" y="{y:.1f}">{safe(text)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, *, round_by: float = 8, hint: str = "") -> str:
    """Return a rectangle with round corners; a hint is shown on hover, where the text in it is cut."""
    place = f'class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_by:g}"'
    return f"<rect {place}><title>{safe(hint)}</title></rect>" if hint else f"<rect {place}/>"


def link(href: str, inside: str, *, title: str = "") -> str:
    """Return a part of a picture that opens something.

    What has no text inside is named by its title, aloud and on hover.
    """
    if not title:
        return f'<a href="{safe(href)}">{inside}</a>'
    said = safe(title)
    return f'<a href="{safe(href)}" aria-label="{said}"><title>{said}</title>{inside}</a>'


def picture(kind: str, width: float, height: float, inside: str, *, title: str, described: str = "") -> Markup:
    """Return a whole picture that is looked at."""
    desc = f"<desc>{safe(described)}</desc>" if described else ""
    return Markup(  # noqa: S704 - every text in it went through `safe`
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="group" aria-label="{safe(title)}">{desc}{inside}</svg>'
    )
