"""The latest entries of a long stream are remembered, and no more than was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinraven.muninn.formats.bounded_map import BoundedMap


@given(st.lists(st.integers(0, 50)), st.integers(2, 20))
def test_the_last_half_is_remembered_as_noted_last(keys: list[int], most: int) -> None:
    """Whatever was noted among the last half as many entries is found, with what was noted last."""
    latest: BoundedMap[int, int] = BoundedMap(most)
    for place, key in enumerate(keys):
        latest.put(key, place)
    for place in range(max(0, len(keys) - most // 2), len(keys)):
        noted_last = max(other for other, key in enumerate(keys) if key == keys[place])
        assert keys[place] in latest
        assert latest[keys[place]] == noted_last


def test_old_entries_are_forgotten() -> None:
    """Of a stream without end no more than so many entries are held."""
    latest: BoundedMap[int, bool] = BoundedMap(10)
    for number in range(1000):
        latest.put(number, True)
    assert sum(number in latest for number in range(1000)) <= 10
    assert latest[0] is None
