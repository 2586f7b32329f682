"""Renders templates, which only loop and escape: what is computed is computed before.

Everything is escaped, an unknown name is an error, and whatever a template puts out is shown with its invisible
characters. A part of a page is its main block without the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from twinraven.console import formatting
from twinraven.foundation.loop_turn import loop_turn

_FOLDER = Path(__file__).parent / "templates"
_SLICE_S: Final = 0.00025
_FILTERS: tuple[Callable[..., Any], ...] = (
    formatting.took,
    formatting.mark,
    formatting.count,
    formatting.percent,
    formatting.day,
    formatting.clock,
    formatting.coded,
    formatting.ago,
    formatting.brief,
    formatting.cut,
    formatting.exact,
    formatting.pretty,
    formatting.seg,
    formatting.seen,
    formatting.sentence,
    formatting.spaced,
    formatting.short,
    formatting.short_ids,
    formatting.plural,
    formatting.tone,
)


@pass_context
def named(context: Context, user_id: str | None, nobody: str = "–") -> str:
    """Return what a user is called, where the viewer may know it, else the id."""
    return nobody if user_id is None else context.get("names", {}).get(user_id, user_id)


@pass_context
def actor(context: Context, text: str) -> str:
    """Return who did something, by name: a user where the viewer may know theirs."""
    kind, colon, user_id = text.partition(":")
    return formatting.actor(f"{kind}:{named(context, user_id)}") if colon else named(context, text)


_NAMING: tuple[Callable[..., Any], ...] = (named, actor)


class Renderer:
    """The templates, compiled as they are needed."""

    def __init__(self, address: Callable[[str], str]) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=formatting.visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update({each.__name__: each for each in (*_FILTERS, *_NAMING)})
        self._environment.globals["static"] = address  # pyright: ignore[reportArgumentType] - any value may be global

    async def page(self, template: str, values: Mapping[str, Any]) -> str:
        return await joined(self._environment.get_template(template).generate({**values, "is_part": False}))

    async def part(self, template: str, values: Mapping[str, Any]) -> str:
        """Return the main block of a page alone."""
        found = self._environment.get_template(template)
        return await joined(found.blocks["main"](found.new_context({**values, "is_part": True})))


async def joined(parts: Iterable[str]) -> str:
    """Return a text made of parts; calls of agents that the same event loop serves go on between them."""
    made: list[str] = []
    until = perf_counter() + _SLICE_S
    for part in parts:
        made.append(part)
        if perf_counter() >= until:
            await loop_turn()
            until = perf_counter() + _SLICE_S
    return "".join(made)
