"""The idle gap of the settings acts in the gateway: a longer pause counts as input from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateways import OLD, home_with, open_client, stdio_gateway


@pytest.mark.req("TR-26")
@pytest.mark.parametrize(("gap_s", "cut"), [(900, False), (0, True)])
async def test_a_pause_beyond_the_idle_gap_counts_as_outside_input(tmp_path: Path, gap_s: float, cut: bool) -> None:
    """With `muninn.session_idle_gap_s: 0` every further call follows a pause; with the usual gap none does."""
    shell = home_with(tmp_path, {"old": OLD}, muninn={"session_idle_gap_s": gap_s})
    async with open_client(stdio_gateway(shell)) as seen:
        for text in ("one", "two", "three"):
            await seen.call("old__echo", text=text)
    (session,) = shell.json("sessions", "list")
    pauses = [event["outside_input"] for event in shell.json("sessions", "show", session["session_id"])]
    assert [pause is not None for pause in pauses] == [False, cut, cut]
