"""What a page is asked and what it gives: a visit, a page that is shown, a redirect, and the row of a page's table."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twinraven.console.asking import ApiCaller


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks at a page."""

    tenant_id: str
    user_id: str
    role: str
    key_id: str | None

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"

    @property
    def may_decide(self) -> bool:
        return self.role in ("admin", "approver")

    @property
    def may_change(self) -> bool:
        """Whether they may do anything but look."""
        return self.role != "viewer"

    @property
    def is_local(self) -> bool:
        """Whether it is whoever is at this machine, without a key."""
        return self.key_id is None


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page, by somebody who is known."""

    api: ApiCaller
    me: Reader
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    parts: frozenset[str]
    """The first words of the API's paths: what this home has at all."""

    def has(self, part: str) -> bool:
        return part in self.parts


@dataclass(frozen=True, slots=True)
class Shown:
    """A page as it is to be rendered."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    command: str = ""
    """What shows the same at a terminal."""
    status: int = 200


def command_line(*words: str) -> str:
    """What shows the same at a terminal; what came from outside is quoted, so that pasting it runs nothing else."""
    return shlex.join(["twinraven", *words])


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where to go after something was done."""

    location: str
    headers: tuple[tuple[str, str], ...] = ()


View = Callable[[Visit], Awaitable[Shown | Redirect]]


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One row of the table of pages."""

    method: str
    path: str
    view: View
    section: str
    """Which entry of the menu it belongs to."""
    live: str = ""
    """The topics whose changes it shows, by words; `events/10` is shown every ten seconds at most."""
    held: bool = False
    """Whether changes wait until the reader asks for them, where history is read."""
    needs: str = ""
    """The first word of an API path without which the page is not there."""


class PageTable(list[ConsolePage]):
    """Collects the pages that views are declared with."""

    def shows(
        self, path: str, section: str, *, live: str = "", held: bool = False, needs: str = ""
    ) -> Callable[[View], View]:
        """Declare a view as the page at a path."""

        def declare(view: View) -> View:
            self.append(ConsolePage("GET", path, view, section, live, held, needs))
            return view

        return declare

    def takes(self, path: str, section: str, *, needs: str = "") -> Callable[[View], View]:
        """Declare a view as what a form at a path is sent to."""

        def declare(view: View) -> View:
            self.append(ConsolePage("POST", path, view, section, needs=needs))
            return view

        return declare
