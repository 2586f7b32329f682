"""Models requests to pages and their results: a rendered page, a redirect, and the row of a page's table."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinraven.console.api_caller import ApiCaller
from twinraven.foundation.ids import id_digest


@dataclass(frozen=True, slots=True)
class Viewer:
    """The signed-in user who views a page."""

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
        """Whether it is the local user, without a key."""
        return self.key_id is None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """An authenticated request for a page."""

    api: ApiCaller
    me: Viewer
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    parts: frozenset[str]
    """The first words of the API's paths: what this home has at all."""

    def has(self, part: str) -> bool:
        return part in self.parts


@dataclass(frozen=True, slots=True)
class PageView:
    """A page to be rendered: template, title and values."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    command: str = ""
    """What shows the same at a terminal."""
    status: int = 200
    about: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """By topic, the ids that it shows; a topic that is not here concerns the page whatever changed."""
    held: bool = False
    """Whether it shows history, on which news waits until somebody asks for it."""


def live_words(live: str, about: Mapping[str, Sequence[str]]) -> str:
    """Return the topics of a page with digests of the ids that it shows, for its script: `runs=4f… events/10`."""
    return " ".join(
        word if ids is None else f"{word}={','.join(map(id_digest, ids))}"
        for word in live.split()
        for ids in [about.get(word.partition("/")[0])]
    )


def command_line(*words: str) -> str:
    """Return the CLI command that shows the same; values from outside are quoted, so that pasting it is safe."""
    return shlex.join(["twinraven", *words])


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect after a form was handled."""

    location: str
    headers: tuple[tuple[str, str], ...] = ()


View = Callable[[PageRequest], Awaitable[PageView | Redirect]]


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
