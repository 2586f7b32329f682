"""When something was said, in the forms in which dialogues are exported."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from twinraven.foundation.errors import InvalidInput
from twinraven.knowledge import NewEpisode, parse_moment

_SAID = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        "2023-05-08T13:56:00Z",
        "2023-05-08T15:56:00+02:00",
        "2023-05-08 13:56:00 UTC",
        "1:56 pm on 8 May, 2023",
        "Monday, May 8, 2023 1:56 PM",
        "2023/05/08 (Mon) 13:56",
        "Mon, 08 May 2023 15:56:00 +0200",
        "08.05.2023 13:56",
        "8-May-2023 13:56",
        "1683554160",
        1683554160,
        1683554160000,
    ],
)
def test_a_moment_is_read_in_the_forms_of_exports(written: Any) -> None:
    """Chats are exported with times in several forms, and each is the same moment."""
    assert parse_moment(written, field="valid_at") == _SAID


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("8 May 2023", datetime(2023, 5, 8, tzinfo=UTC)),
        ("[20/05/2023, 13:56:01]", datetime(2023, 5, 20, 13, 56, 1, tzinfo=UTC)),
        ("05/20/2023", datetime(2023, 5, 20, tzinfo=UTC)),
        ("5/5/2023", datetime(2023, 5, 5, tzinfo=UTC)),
        ("12 am on June 1st, 2023", datetime(2023, 6, 1, tzinfo=UTC)),
        ("12:30 pm, 1st of June 2023", datetime(2023, 6, 1, 12, 30, tzinfo=UTC)),
    ],
)
def test_a_day_and_noon_are_read(written: str, read: datetime) -> None:
    """A day without a time begins at midnight, and 12 pm is noon."""
    assert parse_moment(written, field="valid_at") == read


@pytest.mark.parametrize(
    "written",
    [
        "yesterday",
        "05/08/2023",
        "05/08/23",
        "13/13/2023",
        "32.05.2023",
        "8th of May",
        "31 June 2023",
        "25:00 on 8 May 2023",
        True,
        [],
        float("nan"),
        1e20,
    ],
)
def test_what_can_be_read_in_two_ways_or_none_is_refused(written: Any) -> None:
    """05/08/2023 is a day in May or in August: the error names the field."""
    with pytest.raises(InvalidInput, match="valid_at"):
        parse_moment(written, field="valid_at")


def test_empty_optional_fields_are_absent_ones() -> None:
    """Exports write what is not known as null or as an empty text; what is required must be there."""
    bare = {"group_id": "g", "name": "a", "content": "hello"}
    assert NewEpisode.of_json({**bare, "speaker": "", "valid_at": "", "source": None}) == NewEpisode.of_json(bare)
    for field in bare:
        with pytest.raises(InvalidInput, match=field):
            NewEpisode.of_json({**bare, field: ""})
