"""Draws columns over time, failures at the foot, each a link into its stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from twinraven.console.drawing.marks import label, link, safe

_WIDE = 1000.0
_FOOT = 18.0


@dataclass(frozen=True, slots=True)
class Column:
    """One stretch of time."""

    calls: int
    failed: int
    said: str
    """What it is, in words: "09:00: 12 calls, 1 failed"."""
    tick: str
    """What stands below it; mostly nothing."""
    href: str


def columns(found: Sequence[Column], *, height: float, title: str) -> Markup:
    """The columns side by side."""
    most = max((each.calls for each in found), default=0) or 1
    step = _WIDE / max(len(found), 1)
    room = height - _FOOT
    parts: list[str] = []
    for number, each in enumerate(found):
        x, tall = number * step, room * each.calls / most
        bars = f'<rect class="hit" x="{x:.1f}" y="0" width="{step:.1f}" height="{room:.1f}"/>'
        if each.calls:
            bars += _bar("ok", x, step, room, max(tall, 1.5))
        if each.failed:
            bars += _bar("bad", x, step, room, max(room * each.failed / most, 2.5))
        parts.append(link(each.href, bars, title=each.said))
        if each.tick:
            parts.append(label(x + step / 2, height - 3, each.tick, "tick"))
    return Markup(  # noqa: S704 - texts went through `safe`
        f'<svg class="bars" viewBox="0 0 {_WIDE:.0f} {height:.0f}" role="group" aria-label="{safe(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _bar(kind: str, x: float, step: float, room: float, tall: float) -> str:
    gap = min(4.0, step / 6)
    return (
        f'<rect class="{kind}" x="{x + gap / 2:.1f}" y="{room - tall:.1f}" width="{step - gap:.1f}" '
        f'height="{tall:.1f}" rx="{min(2.0, tall / 2):.1f}"/>'
    )


def meter(share: float, kind: str = "ok", more: float = 0.0) -> Markup:
    """A bar that shows a share of a whole; `more` is drawn over it in red."""
    over = f'<rect class="bad" width="{100 * more:.1f}" height="6"/>' if more else ""
    return Markup(  # noqa: S704 - numbers and names of ours
        f'<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{kind}" width="{100 * share:.1f}" height="6"/>{over}</svg>'
    )
