"""Draws columns over time, failures at the foot, each a link into its stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from twinraven.console.drawing.marks import link, safe

_FOOT = 20.0


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """One stretch of time."""

    calls: int
    failed: int
    said: str
    """What it is, in words: "09:00: 12 calls, 1 failed"."""
    tick: str
    """What stands below it; mostly nothing."""
    href: str


def columns(found: Sequence[TimeColumn], *, height: float, title: str) -> Markup:
    """Draw the columns side by side: as wide as the page, of a fixed height, so that labels stay readable."""
    most = max((each.calls for each in found), default=0) or 1
    step = 100 / max(len(found), 1)
    room = height - _FOOT
    parts: list[str] = []
    for number, each in enumerate(found):
        x, tall = number * step, room * each.calls / most
        bars = f'<rect class="hit" x="{x:.3f}%" y="0" width="{step:.3f}%" height="{room:.1f}"/>'
        if each.calls:
            bars += _bar("ok", x, step, room, max(tall, 1.5))
        if each.failed:
            bars += _bar("bad", x, step, room, max(room * each.failed / most, 2.5))
        parts.append(link(each.href, bars, title=each.said))
        if each.tick:
            parts.append(f'<text class="tick" x="{x + step / 2:.3f}%" y="{height - 4:.1f}">{safe(each.tick)}</text>')
    return Markup(  # noqa: S704 - texts went through `safe`
        f'<svg class="bars" height="{height:.0f}" role="group" aria-label="{safe(title)}">{"".join(parts)}</svg>'
    )


def _bar(kind: str, x: float, step: float, room: float, tall: float) -> str:
    gap = step / 8
    return (
        f'<rect class="{kind}" x="{x + gap / 2:.3f}%" y="{room - tall:.1f}" width="{step - gap:.3f}%" '
        f'height="{tall:.1f}" rx="{min(2.0, tall / 2):.1f}"/>'
    )


def meter(share: float, kind: str = "ok", more: float = 0.0) -> Markup:
    """Return a bar that shows a share of a whole; `more` is drawn over it in red."""
    over = f'<rect class="bad" width="{100 * more:.1f}" height="6"/>' if more else ""
    return Markup(  # noqa: S704 - numbers and names of ours
        f'<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{kind}" width="{100 * share:.1f}" height="6"/>{over}</svg>'
    )


def hour_marks(marks: Sequence[tuple[str, str]], *, title: str) -> Markup:
    """Marks side by side, each with its tone (good, warn, bad, none) and what it says on hover."""
    step = 100 / max(len(marks), 1)
    parts = [
        f'<rect class="{kind}" x="{number * step:.2f}" width="{0.72 * step:.2f}" height="16" rx="1">'
        f"<title>{safe(said)}</title></rect>"
        for number, (kind, said) in enumerate(marks)
    ]
    return Markup(  # noqa: S704 - texts went through `safe`
        f'<svg class="marks" viewBox="0 0 100 16" preserveAspectRatio="none" role="img" aria-label="{safe(title)}">'
        f"{''.join(parts)}</svg>"
    )
