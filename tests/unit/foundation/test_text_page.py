"""docs/text.md: one example of each reader, and each is what the reader gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from twinraven.flow.operators import MAX_JOINED_CHARS, MAX_MAPPED
from twinraven.foundation.text_lines import LINE_CHARS, LINE_ITEMS
from twinraven.foundation.text_readers import READERS, read_text
from twinraven.foundation.text_shapes import SHAPE_CHARS, SHAPE_ITEMS
from twinraven.foundation.text_values import READ_CHARS, READ_DEPTH, READ_VALUES

PAGE = (Path(__file__).parents[3] / "docs" / "text.md").read_text()
EXAMPLES = re.findall(r"^### `(\w+)`\n.*?```text\n(.*?)\n```\n\n```json\n(.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_has_every_reader_in_order() -> None:
    """Each reader has its section and its example, in the order in which texts are tried."""
    assert [kind for kind, _, _ in EXAMPLES] == list(READERS)


@pytest.mark.parametrize(("kind", "text", "value"), EXAMPLES, ids=[kind for kind, _, _ in EXAMPLES])
def test_an_example_is_what_the_reader_gives(kind: str, text: str, value: str) -> None:
    """What the page shows is what comes out."""
    assert read_text(kind, text) == json.loads(value)


@pytest.mark.parametrize(
    "bound",
    [
        READ_CHARS,
        READ_DEPTH,
        READ_VALUES,
        LINE_CHARS,
        LINE_ITEMS,
        SHAPE_CHARS,
        SHAPE_ITEMS,
        MAX_MAPPED,
        MAX_JOINED_CHARS,
    ],
)
def test_the_page_says_the_bounds(bound: int) -> None:
    """Every bound of the code stands on the page."""
    assert f" {bound:,} " in PAGE
