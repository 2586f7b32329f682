"""Server-sent events, however they are cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidOutput
from twinraven.foundation.server_events import ServerEvent, ServerEventReader

_TEXTS = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
_MESSAGES = st.lists(st.tuples(_TEXTS, st.lists(_TEXTS, min_size=1, max_size=3), st.integers(0, 99)), max_size=5)


@given(_MESSAGES, st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_pieces_make_no_difference(sent: list[tuple[str, list[str], int]], end: str, data: st.DataObject) -> None:
    """A stream says the same whichever way it is cut, and whichever line ends it uses."""
    lines: list[str] = []
    for event, texts, number in sent:
        lines += [": a remark", f"id: {number}", f"event: {event}", *(f"data: {text}" for text in texts), ""]
    stream = "".join(line + end for line in [*lines, "", ": the end"]).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    reader = ServerEventReader()
    heard = [message for piece in pieces for message in reader.feed(piece)]
    assert heard == [ServerEvent(event or "message", "\n".join(texts), str(number)) for event, texts, number in sent]


def test_an_id_alone_says_where_to_go_on() -> None:
    """An id without data is heard; one that was heard before stands for the messages that name none."""
    reader = ServerEventReader(last_id="3")
    assert list(reader.feed(b"data: a\n\nid: 7\n: listening\n\nid: 8\nid\n\n")) == [
        ServerEvent("message", "a", "3"),
        ServerEvent("message", "", "7"),
        ServerEvent("message", "", None),
    ]


def test_a_stream_may_say_when_to_come_again_and_begin_with_a_mark() -> None:
    """A byte order mark belongs to no field, and a time to wait is told with the event that it came in."""
    reader = ServerEventReader()
    assert list(reader.feed(b"\xef\xbb\xbfretry: 250\nid: 1\ndata:\n\nretry: soon\ndata: a\n\n")) == [
        ServerEvent("message", "", "1", 250),
        ServerEvent("message", "a", "1", None),
    ]


def test_an_event_without_an_end_is_refused() -> None:
    """What is kept of an event that does not end is limited, whether it is one line or many; comments count, too."""
    for piece in (b"data: aaaaaaaaaaaaaaaaaaaaaaaa", b"data: a\n", b": x\n"):
        reader = ServerEventReader(max_bytes=100)
        list(reader.feed(b"data: before\n\n"))
        with pytest.raises(InvalidOutput, match="more than 100 bytes"):
            [list(reader.feed(piece)) for _ in range(100)]
