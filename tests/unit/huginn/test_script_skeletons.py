"""Two scripts are one where only names and values differ, and two where the data flows another way."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.huginn.script_skeletons import LONGEST_SCRIPT, skeleton_of

SCRIPT = """
import asyncio
{a} = await list_orders(customer={x!r})
{b} = await asyncio.gather(*[get_order(order_id={c}['id'], full=True) for {c} in {a}['orders']])
[{d}['total'] for {d} in {b} if {d}['total'] > {n}]
"""
NAMES = st.text("abcdefgh_", min_size=1, max_size=6).filter(lambda name: not keyword.iskeyword(name) and name != "_")


def text_of(code: str) -> str:
    found = skeleton_of(code)
    assert found is not None
    return found.text


@given(st.lists(NAMES, min_size=4, max_size=4, unique=True), st.text(max_size=20), st.integers(0))
def test_names_and_values_do_not_tell_scripts_apart(names: list[str], customer: str, least: int) -> None:
    """Whatever its variables are called and whatever it is run with, a script has one skeleton, and its literals."""
    code = SCRIPT.format(**dict(zip("abcd", names, strict=True)), x=customer, n=least)
    found = skeleton_of(code)
    assert found is not None
    assert found.literals == (customer, least)
    assert found.text == text_of(SCRIPT.format(a="a", b="b", c="c", d="d", x="", n=0))


@pytest.mark.parametrize(
    "same",
    [
        "order = await get_order(order_id='W1')\norder['total']",
        "order = get_order(order_id='W2')\nresult = order['total']",
        "import json\nprint('looking')\nx = get_order(order_id='W3')\nprint(x)\nx['total']",
        "'''Reads an order.'''\ny = get_order(order_id=7)\ny['total']",
    ],
)
def test_what_carries_no_data_is_left_out(same: str) -> None:
    """Awaiting, printing, importing, docstrings and the name of the result make no difference."""
    assert text_of(same) == text_of("o = get_order(order_id='W0')\no['total']")


@pytest.mark.parametrize(
    "other",
    [
        "o = get_invoice(order_id='W0')\no['total']",
        "o = get_order(number='W0')\no['total']",
        "o = get_order(order_id='W0')\no['state']",
        "o = get_order(order_id='W0')\no['total'] + 1",
        "o = get_order(order_id=True)\no['total']",
        "o = call_tool('get_order', {'order_id': 'W0'})\no['total']",
    ],
)
def test_what_carries_data_tells_scripts_apart(other: str) -> None:
    """Another tool, argument, key or step is another script."""
    assert text_of(other) != text_of("o = get_order(order_id='W0')\no['total']")
    assert text_of("call_tool('a', {'x': 1})") != text_of("call_tool('b', {'x': 1})")
    assert text_of("f'{a} of {b}'") == text_of("f'{a} in {b}'")


@pytest.mark.parametrize(
    "code", ["def f(:", "\x00", "-" * 100_000 + "1", "(" * 5_000, "a" + ".b" * 20_000, "1\n" * LONGEST_SCRIPT]
)
def test_what_is_no_script_has_no_skeleton(code: str) -> None:
    """Broken, bottomless and endless texts are passed over."""
    assert skeleton_of(code) is None


@given(st.text(max_size=60))
def test_any_text_is_read_or_passed_over(code: str) -> None:
    """No text of a log stops learning."""
    skeleton_of(code)
