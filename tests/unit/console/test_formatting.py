"""Words for people: nothing is invisible, nothing turns a line around, and everything is escaped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinraven.console import formatting


def test_invisible_characters_are_shown() -> None:
    """What cannot be seen is shown by its number."""
    assert formatting.seen("a\u202eb\u200bc\x07") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0007⟩"
    assert formatting.visible("x\u202e") == "x⟨U+202E⟩"


def test_code_in_words() -> None:
    """What stands between backticks is set as code, and escaped like everything else."""
    assert formatting.coded("in `a<b`, or <i>") == "in <code>a&lt;b</code>, or &lt;i&gt;"


def test_durations() -> None:
    """Durations are as short as they can be read."""
    assert [formatting.took(ms) for ms in (None, 12, 1500, 12_000, 61_000, 3_700_000)] == [
        "–", "12 ms", "1.5 s", "12 s", "1 min 01 s", "1 h 01 min",
    ]  # fmt: skip


def test_marks_of_an_axis_are_told_apart() -> None:
    """Half seconds behind a minute are said, so that no two marks read alike."""
    assert [formatting.mark(ms) for ms in (500, 59_000, 102_000, 102_500)] == ["500 ms", "59 s", "1:42", "1:42.5"]


def test_people_are_named_and_ids_shortened() -> None:
    """A person is a name, a program says what it is, and a long id keeps what it is an id of."""
    assert [formatting.actor(text) for text in ("person:ada", "system:engine", "system", "–")] == [
        "ada", "engine (system)", "system", "–",
    ]  # fmt: skip
    assert (formatting.short("effect:6aec06834cfc2edd"), formatting.short("b8a97f2592d2adb7")) == (
        "effect:6aec0683",
        "b8a97f25",
    )


@given(st.text(), st.text())
def test_json_is_escaped(name: str, value: str) -> None:
    """JSON with colours has no markup but ours, whatever is in it."""
    text = str(formatting.pretty({name: value}))
    for ours in ('<span class="k">', '<span class="s">', '<span class="n">', '<span class="more">', "</span>"):
        text = text.replace(ours, "")
    assert "<" not in text


@given(st.text(min_size=1))
def test_segments_round_trip(text: str) -> None:
    """What names something can be any text and stays one segment of a path."""
    from urllib.parse import unquote

    text = text.encode("utf-8", "replace").decode()
    made = str(formatting.seg(text))
    assert "/" not in made
    assert "<" not in made
    assert unquote(made) == text


def test_long_values_are_cut() -> None:
    """A value of a megabyte is shown as its beginning and how much is left."""
    shown = str(formatting.pretty("x" * 1_000_000))
    assert len(shown) < 30_000
    assert "more characters" in shown
