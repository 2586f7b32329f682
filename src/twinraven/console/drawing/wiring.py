"""Draws the wiring of a learned tool: what the caller gives, then each step, and on every wire the evidence for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from twinraven.console.drawing.marks import box, label, picture
from twinraven.console.formatting import cut

_CARD: Final = 208.0
_GIVEN: Final = 150.0
_GAP: Final = 132.0
_PAD: Final = 4.0
_LINE: Final = 19.0
_STEP: Final = re.compile(r"\$\.steps\[(\d+)\]\.output\.?([\w.\[\]*]*)")
_WEAK: Final = 0.1

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Card:
    """The position of a step's card."""

    x: float
    top: float
    height: float
    is_stacked: bool

    @property
    def right(self) -> float:
        return self.x + _CARD + (8 if self.is_stacked else 0)

    def port(self, number: int) -> tuple[float, float]:
        return self.x, self.top + 60 + _LINE * number


class Lanes:
    """Hands out room below the cards for wires that pass others by."""

    def __init__(self, floor: float) -> None:
        self.lowest = floor

    def take(self, room: float) -> float:
        """Return the height of a new lane that needs so much room."""
        self.lowest += room
        return self.lowest - room / 2


def wiring(tool_id: str, steps: Sequence[Step], given: Sequence[str]) -> Markup:
    """Return the picture; every wire from an earlier step says how many samples agreed and how many did not."""
    heights = [62 + _LINE * len(step["arguments"]) for step in steps]
    height = max([44 + _LINE * len(given), *heights]) + 46
    middle = height / 2 + 6
    x = _PAD + (_GIVEN + _GAP - 40 if given or (steps and steps[0]["arguments"]) else 0)
    cards: list[Card] = []
    for step, tall in zip(steps, heights, strict=True):
        cards.append(Card(x, middle - tall / 2, tall, is_stacked=bool(step["for_each"])))
        x += _CARD + _GAP
    given_height = 40 + _LINE * len(given)
    given_top = cards[0].top + 23 if cards else _PAD
    starts = {name: (_PAD + _GIVEN, given_top + 37 + _LINE * line) for line, name in enumerate(given)}
    lanes = Lanes(max([height - 24, *(card.top + card.height + 8 for card in cards)]))
    wires: list[str] = []
    said: list[str] = []
    for number, step in enumerate(steps):
        for place, argument in enumerate(step["arguments"]):
            wires += _wires_of(argument, number, cards[number].port(place), cards, starts, lanes=lanes)
            said.append(f"{step['tool_id']} takes {argument['name']}: {argument['source']}.")
    boxes = [_given(given, given_top, given_height)] if given else []
    boxes += [_card(step, card) for step, card in zip(steps, cards, strict=True)]
    return picture(
        "wiring",
        x - _GAP + 16,
        max(height, given_top + given_height + 10, lanes.lowest + 14),
        "".join(wires) + "".join(boxes),
        title=f"How {tool_id} is wired",
        described=" ".join(said),
    )


def _given(names: Sequence[str], top: float, height: float) -> str:
    lines = "".join(
        label(_PAD + 14, top + 41 + _LINE * number, cut(name, 17), "arg") for number, name in enumerate(names)
    )
    head = label(_PAD + 14, top + 18, "The caller gives", "head")
    return f"<g>{box(_PAD, top, _GIVEN, height, 'card given', round_by=9)}{head}{lines}</g>"


def _card(step: Step, card: Card) -> str:
    kind = "card read" if step["effect"] == "read" else "card write"
    behind = "".join(
        box(card.x + offset, card.top + offset, _CARD, card.height, f"{kind} behind", round_by=9)
        for offset in ((8, 4) if card.is_stacked else ())
    )
    often = " · once for each" if card.is_stacked else ""
    lines = "".join(
        f'<circle class="port" cx="{card.x:.1f}" cy="{card.port(number)[1]:.1f}" r="3.5"/>'
        + label(card.x + 14, card.port(number)[1] + 4, cut(argument["name"], 24), "arg")
        for number, argument in enumerate(step["arguments"])
    )
    head = label(card.x + 14, card.top + 24, cut(step["tool_id"], 26), "name")
    sub = label(card.x + 14, card.top + 42, f"{step['effect']}, {step['effect_origin']}{often}", "sub")
    return f"{behind}<g>{box(card.x, card.top, _CARD, card.height, kind, round_by=9)}{head}{sub}{lines}</g>"


def _wires_of(
    argument: Mapping[str, Any],
    number: int,
    port: tuple[float, float],
    cards: Sequence[Card],
    starts: Mapping[str, tuple[float, float]],
    *,
    lanes: Lanes,
) -> list[str]:
    """Draw where one argument of a step comes from: the caller's parameters, an earlier step, or a constant."""
    drawn = [
        _wire("asked", starts[name], port) if number == 0 else _around("asked", starts[name], port, lanes.take(14))
        for name in argument["parameters"]
        if name in starts
    ]
    found = _STEP.search(argument["source"])
    if found and int(found[1]) < len(cards):
        lane = None if int(found[1]) >= number - 1 else lanes.take(34)
        drawn.append(_evidence_wire(cards[int(found[1])], port, argument, found[2], lane))
    elif not drawn:
        drawn.append(label(port[0] - 8, port[1] + 4, cut(argument["source"], 18), "fixed"))
    return drawn


def _evidence_wire(
    source: Card, port: tuple[float, float], argument: Mapping[str, Any], path: str, lane: float | None
) -> str:
    """Draw a wire from an earlier step, straight or along a lane, with the samples for and against it."""
    agreed, disagreed = argument["for"] or 0, argument["against"] or 0
    grade = "sure" if not disagreed else "mixed" if disagreed / (agreed + disagreed) < _WEAK else "weak"
    many = "[*]" if str(argument["source"]).startswith("each of") else ""
    start = (source.right, min(max(port[1], source.top + 14), source.top + source.height - 14))
    half, level = (start[0] + port[0]) / 2, (start[1] + port[1]) / 2 if lane is None else lane
    return (
        (_wire(grade, start, port) if lane is None else _around(grade, start, port, lane))
        + label(half, level - 8, cut((path or "output") + many, 16), "flow")
        + label(half, level + 17, f"{agreed} for, {disagreed} against", f"proof {grade}")
    )


def _around(kind: str, start: tuple[float, float], port: tuple[float, float], lane: float) -> str:
    """Draw a wire that runs below the cards between its ends, so that it crosses neither them nor what they say."""
    (x, y), (to_x, to_y) = start, port
    down = f"C{x + 26:.0f} {y:.0f} {x + 10:.0f} {lane:.0f} {x + 36:.0f} {lane:.0f}"
    up = f"C{to_x - 8:.0f} {lane:.0f} {to_x - 20:.0f} {to_y:.0f} {to_x - 4:.0f} {to_y:.0f}"
    return f'<path class="wire {kind}" d="M{x:.0f} {y:.0f} {down} L{to_x - 26:.0f} {lane:.0f} {up}"/>'


def _wire(kind: str, start: tuple[float, float], port: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = start, port
    half = (x + to_x) / 2
    path = f"M{x:.0f} {y:.0f} C{half:.0f} {y:.0f} {half:.0f} {to_y:.0f} {to_x - 4:.0f} {to_y:.0f}"
    return f'<path class="wire {kind}" d="{path}"/>'
