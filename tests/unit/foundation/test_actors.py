"""Reading an actor from a text, and writing it as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.actors import ACTOR_TYPES, LONGEST_ACTOR_ID, SYSTEM, Actor, parse_actor
from twinraven.foundation.errors import InvalidInput

KEY = "tr_" + "k" * 43
IDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=60)


@given(st.sampled_from(ACTOR_TYPES), IDS)
def test_an_actor_is_read_as_it_is_written(kind: str, name: str) -> None:
    """Whatever the id holds, colons too, the text of an actor gives the actor back."""
    actor = parse_actor(f"{kind}:{name}", field="actor")
    assert (actor.type, actor.id) == (kind, name)
    assert parse_actor(str(actor), field="actor") == actor


@pytest.mark.parametrize("text", ["ada", "urn:user:5", "ada:agent", "agents:x", "Agent:x"])
def test_a_text_without_a_kind_is_a_person(text: str) -> None:
    """Only the four kinds are prefixes; anything else belongs to the id."""
    assert parse_actor(text, field="actor") == Actor("person", text)


def test_only_the_system_needs_no_id() -> None:
    """The platform's own acts may be nobody's in particular."""
    assert str(SYSTEM) == "system"


@pytest.mark.parametrize("text", ["", "agent:", "agent:a\nb", "x" * (LONGEST_ACTOR_ID + 1), f"agent:{KEY}", KEY])
def test_what_is_no_id_is_refused_and_not_repeated(text: str) -> None:
    """Empty, unreadable and overlong ids are refused by the name of the field, and so is an API key."""
    with pytest.raises(InvalidInput) as refusal:
        parse_actor(text, field="user_id")
    assert refusal.value.details["field"] == "user_id"
    assert not text or text.removeprefix("agent:") not in refusal.value.message or text == "agent:"
