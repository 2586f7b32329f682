"""The chain as an algorithm: any change to what was appended is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.audit.chain import GENESIS, ChainRow, ChainWalk, hash_body, hash_entry
from twinraven.audit.model import Anchor, Fault, Head

_TEXT_COLUMNS = ("tenant_id", "id", "subject_type", "subject_id", "event_type", "actor_type", "correlation_id")


def make_chain(length: int) -> list[ChainRow]:
    rows: list[ChainRow] = []
    previous = GENESIS
    for number in range(1, length + 1):
        body, salt = b'{"name":"Ada"}', bytes([number]) * 32
        row = ChainRow(
            tenant_id="t",
            sequence=number,
            id=f"id{number}",
            subject_type="other",
            subject_id=f"s{number}",
            event_type="thing.done",
            actor_type="system",
            actor_id=None,
            timestamp=1000 + number,
            correlation_id="c",
            code=None,
            message=None,
            data_json="{}",
            body_hash=hash_body(salt, body),
            previous_hash=previous,
            entry_hash="",
            salt=salt,
            body=body,
        )
        previous = hash_entry(row.hashed_fields)
        rows.append(row._replace(entry_hash=previous))
    return rows


def head_of(rows: list[ChainRow]) -> Head:
    return Head("t", len(rows), rows[-1].entry_hash, 0, "k", "genuine")


def check(rows: list[ChainRow], head: Head | None, *anchors: Head) -> Fault | None:
    walk = ChainWalk("t", [Anchor(anchor, "") for anchor in anchors])
    walk.follow(rows)
    walk.close(head, lambda found: None if found.signature == "genuine" else "not ours")
    return walk.fault


def test_an_untouched_chain_has_no_fault() -> None:
    """What was appended verifies, with and without anchors."""
    rows = make_chain(5)
    assert check(rows, head_of(rows)) is None
    assert check(rows, head_of(rows), head_of(rows[:3]), head_of(rows)) is None
    assert check([], None) is None


@given(st.integers(0, 7), st.sampled_from(_TEXT_COLUMNS), st.text(min_size=1, max_size=5))
def test_any_edit_of_a_text_is_found_where_it_is(place: int, column: str, text: str) -> None:
    """An edited entry is named by its own number."""
    rows = make_chain(8)
    head = head_of(rows)
    changed: dict[str, Any] = {column: getattr(rows[place], column) + text}
    rows[place] = rows[place]._replace(**changed)
    fault = check(rows, head)
    assert fault is not None
    assert (fault.sequence, fault.kind) == (place + 1, "edited")


@given(st.data())
def test_any_subset_in_any_order_is_found(data: st.DataObject) -> None:
    """Whatever rows are left, in whatever order, only the whole chain verifies."""
    rows = make_chain(6)
    head = head_of(rows)
    kept = data.draw(st.lists(st.sampled_from(rows), unique_by=lambda row: row.sequence))
    if kept != rows:
        assert check(kept, head) is not None
        # Reordered and numbered anew, so that no gap shows.
        assert check([row._replace(sequence=place) for place, row in enumerate(kept, 1)], head) is not None


@given(st.integers(1, 5))
def test_a_truncation_with_a_moved_head_is_found_by_its_signature(length: int) -> None:
    """A head that names an earlier entry is not signed for it."""
    rows = make_chain(6)
    forged = Head("t", length, rows[length - 1].entry_hash, 0, "k", "copied")
    fault = check(rows[:length], forged)
    assert fault is not None
    assert fault.kind == "signature"


def test_a_rewritten_chain_is_found_by_an_anchor_at_the_entry_it_saw() -> None:
    """Even with a genuine signature another history contradicts the anchor."""
    rows = make_chain(6)
    other = make_chain(6)
    other[2] = other[2]._replace(subject_id="forged", entry_hash="")
    for place in range(2, 6):
        linked = other[place]._replace(previous_hash=other[place - 1].entry_hash)
        other[place] = linked._replace(entry_hash=hash_entry(linked.hashed_fields))
    assert check(other, head_of(other)) is None
    assert check(other, head_of(other), head_of(rows[:2])) is None
    fault = check(other, head_of(other), head_of(rows[:4]))
    assert fault is not None
    assert (fault.sequence, fault.kind) == (4, "anchor")


def test_an_older_genuine_state_is_found_by_an_anchor() -> None:
    """What the anchor saw must still be there."""
    rows = make_chain(6)
    assert check(rows[:4], head_of(rows[:4])) is None
    fault = check(rows[:4], head_of(rows[:4]), head_of(rows))
    assert fault is not None
    assert (fault.sequence, fault.kind) == (5, "truncated")
    gone = check([], None, head_of(rows))
    assert gone is not None
    assert (gone.sequence, gone.kind) == (1, "truncated")


@pytest.mark.parametrize("change", [{"body": b"{}"}, {"salt": b"x" * 32}, {"body": None, "salt": None}])
def test_a_body_that_is_not_the_one_appended_is_found(change: dict[str, Any]) -> None:
    """A body is either the one it was, or erased by an entry that says so."""
    rows = make_chain(4)
    head = head_of(rows)
    rows[1] = rows[1]._replace(**change)
    fault = check(rows, head)
    assert fault is not None
    assert (fault.sequence, fault.kind) == (2, "body")


def test_a_chain_without_a_head_is_found() -> None:
    """Entries without a head mean that somebody removed it."""
    fault = check(make_chain(3), None)
    assert fault is not None
    assert fault.kind == "head"


@pytest.mark.parametrize("event_type", ["audit.bodies_erased", "audit.reads_sealed"])
def test_a_forged_entry_in_an_impossible_form_is_a_fault_and_no_crash(event_type: str) -> None:
    """A chain that was written anew with nonsense in it is reported, not tripped over."""
    rows = make_chain(1)
    row = rows[0]._replace(event_type=event_type, data_json="[1]")
    row = row._replace(entry_hash=hash_entry(row.hashed_fields))
    fault = check([row], head_of([row]))
    assert fault is not None
    assert fault.kind == "edited"


def test_a_short_body_cannot_be_guessed_without_its_salt() -> None:
    """The same body under two salts leaves two unrelated hashes."""
    assert hash_body(b"a" * 32, b"1") != hash_body(b"b" * 32, b"1")
