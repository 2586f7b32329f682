"""Names who acted: a person, an agent, the system itself, or an outside node, each with an id.

The same four kinds stand in events, calls and the audit chain, written as text `agent:planner`. An id is a user's id or
name, never a key: what looks like one of our API keys is refused wherever an actor is read from outside.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, get_args

from twinraven.foundation.errors import InvalidInput

ActorType = Literal["person", "agent", "system", "node"]

ACTOR_TYPES: Final[tuple[ActorType, ...]] = get_args(ActorType)
_TYPES: Final[dict[str, ActorType]] = {f"{each}:": each for each in ACTOR_TYPES}
LONGEST_ACTOR_ID: Final = 500
_API_KEY: Final = re.compile(r"tr_[A-Za-z0-9_-]{43}")
_UNREADABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Actor(NamedTuple):
    """The actor of an action; only the system needs no id."""

    type: ActorType
    id: str | None

    def __str__(self) -> str:
        return self.type if self.id is None else f"{self.type}:{self.id}"


SYSTEM: Final = Actor("system", None)
"""What the platform does of its own accord."""


def person(id: str) -> Actor:
    """Return the actor of a person with this id."""
    return Actor("person", id)


def agent(id: str) -> Actor:
    """Return an agent known by this id."""
    return Actor("agent", id)


def parse_actor(text: str, *, field: str) -> Actor:
    """Read `agent:planner`; a text that begins with none of the four kinds is the id of a person."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{field} must be a text such as agent:planner, not {type(text).__name__}", field=field)
    stated, colon, name = text.partition(":")
    kind = _TYPES.get(stated + colon)
    if kind is None:
        return Actor("person", check_actor_id(text, field=field))
    return Actor(kind, check_actor_id(name, field=field))


def check_actor_id(name: str, *, field: str) -> str:
    """Return the id of an actor, or raise InvalidInput: it may be too long, unreadable, or one of our API keys."""
    # The text itself stays out of the message: it may be a key.
    if not 0 < len(name) <= LONGEST_ACTOR_ID:
        raise InvalidInput(f"{field} must have an id of 1 to {LONGEST_ACTOR_ID} characters", field=field)
    if _UNREADABLE.search(name):
        raise InvalidInput(f"{field} holds control characters or lone surrogates; remove them", field=field)
    if _API_KEY.search(name):
        raise InvalidInput(f"{field} holds an API key; name the user or agent by id instead", field=field)
    return name
