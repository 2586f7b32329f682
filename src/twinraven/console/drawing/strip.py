"""Draws where a number stands among those of earlier calls."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from twinraven.console.drawing.marks import safe

_FEWEST = 5
_WIDE = 292.0


def strip(earlier: Sequence[float], now: float) -> Markup | None:
    """Return a line of marks with this one among them; None where too few are known to compare with."""
    if len(earlier) < _FEWEST:
        return None
    low, high = min(*earlier, now), max(*earlier, now)
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return 4 + _WIDE * (value - low) / span

    below = sum(value < now for value in earlier)
    said = (
        f"more than {100 * below // len(earlier)} % of {len(earlier)} earlier calls; "
        f"they lay between {min(earlier):,g} and {max(earlier):,g}"
    )
    dots = "".join(f'<line x1="{place(v):.1f}" x2="{place(v):.1f}" y1="7" y2="19"/>' for v in sorted(set(earlier)))
    return Markup(  # noqa: S704 - texts went through `safe`
        f'<span class="strip"><svg viewBox="0 0 300 26" width="300" height="26" role="img" aria-label="{safe(said)}">'
        f'{dots}<circle cx="{place(now):.1f}" cy="13" r="5.5"/></svg><small>{safe(said)}</small></span>'
    )
