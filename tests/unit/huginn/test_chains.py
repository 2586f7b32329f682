"""Candidate chains: their statistics by definition, their links, and how they are ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from bench.generated_log import generate_log
from tests.unit.huginn.billing_world import INVOICE, LOAD, LOOKUP, billing_sessions
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_uuid
from twinraven.huginn import CandidateChain, SessionTrace, mine_chains
from twinraven.huginn.chains import columns_of
from twinraven.huginn.mining import EventColumns, MiningConfig

CONFIG = MiningConfig(min_support=0.02, max_length=4)


def mined(sessions: Sequence[SessionTrace], config: MiningConfig = CONFIG) -> dict[tuple[str, ...], CandidateChain]:
    found = mine_chains(columns_of(sessions), config, now=utc_now())
    return {item.chain.tools: item.chain for item in found}


@pytest.mark.req("TR-11", "TR-13")
def test_statistics_follow_their_definitions() -> None:
    """Support, confidence and failure rate equal what a plain count over the sessions gives."""
    sessions = billing_sessions(300, seed=3)
    chains = mined(sessions)
    for tools, chain in chains.items():
        holding = [session for session in sessions if _occurs(session, tools)]
        assert chain.support == len(holding) / len(sessions)
        assert chain.confidence == pytest.approx(_confidence(sessions, tools))
        assert chain.failure_rate == 0.0
        assert len(chain.tools) >= 2
        assert all(0.0 <= figure <= 1.0 for figure in (chain.support, chain.confidence, chain.failure_rate))
    assert (LOOKUP, LOAD, INVOICE) in chains


@pytest.mark.req("TR-12", "TR-13")
def test_the_same_events_and_config_give_the_same_chains_under_new_ids() -> None:
    """A second run from the stored snapshot finds the same chains in the same order; only the ids are new."""
    columns = columns_of(billing_sessions(200, seed=5))
    first = [item.chain for item in mine_chains(columns, CONFIG, now=utc_now())]
    again = MiningConfig.from_dict(first[0].mining_config)
    second = [item.chain for item in mine_chains(columns, again, now=utc_now())]
    assert [chain.tools for chain in first] == [chain.tools for chain in second]
    assert [chain.value for chain in first] == [chain.value for chain in second]
    assert {chain.chain_id for chain in first}.isdisjoint(chain.chain_id for chain in second)


@pytest.mark.req("TR-14")
def test_every_chain_has_links_with_probabilities_from_the_log() -> None:
    """Each link says how likely the second tool follows the first, counted over all sessions."""
    sessions = billing_sessions(200, seed=6)
    for tools, chain in mined(sessions).items():
        assert [(link.from_tool, link.to_tool) for link in chain.links] == list(pairwise(tools))
        for link in chain.links:
            assert link.transition_probability == pytest.approx(_probability(sessions, link.from_tool, link.to_tool))


@pytest.mark.req("TR-13")
@pytest.mark.parametrize(
    ("field", "value"), [("support", 1.2), ("confidence", -0.1), ("failure_rate", 2.0), ("tools", ("only_one",))]
)
def test_a_chain_outside_its_bounds_is_refused(field: str, value: Any) -> None:
    """Statistics beyond 0 to 1 and single tools are not chains."""
    body: dict[str, Any] = {
        "chain_id": new_uuid(),
        "tools": ("a", "b"),
        "support": 0.5,
        "confidence": 0.5,
        "avg_latency_ms": 3,
        "failure_rate": 0.0,
        "sample_event_ids": (),
        "discovered_at": utc_now(),
        "mining_config": {},
    }
    with pytest.raises(InvalidInput) as caught:
        CandidateChain(**{**body, field: value})
    assert caught.value.details["field"] == field


def test_a_chain_survives_its_json() -> None:
    """What is stored is what is read back."""
    for chain in mined(billing_sessions(100)).values():
        assert CandidateChain.from_json(chain.as_json()) == chain


@pytest.mark.parametrize("seed", [7, 21])
def test_ranking_recovers_what_was_planted(seed: int) -> None:
    """Of twelve chains planted in skewed noise, the twelve most valuable contain at least eleven."""
    log = generate_log(sessions=20_000, seed=seed)
    columns = EventColumns.from_arrays(
        log.names,
        log.tools,
        log.offsets,
        breaks=log.breaks,
        failed=log.failed,
        latency=log.latency,
        start=log.start,
    )
    ranked = mine_chains(columns, MiningConfig(min_support=0.01), now=utc_now(), most=12)
    assert len({item.chain.tools for item in ranked} & set(log.planted)) >= 11


def test_a_piece_of_a_longer_chain_is_set_aside() -> None:
    """A pair that nearly always goes on to a third call ranks behind the whole and says why."""
    chains = list(mined(billing_sessions(300, seed=8)).values())
    whole = next(chain for chain in chains if chain.tools == (LOOKUP, LOAD, INVOICE))
    piece = next(chain for chain in chains if chain.tools == (LOOKUP, LOAD))
    assert whole.value > piece.value
    assert "part of" in piece.why


def _occurs(session: SessionTrace, tools: tuple[str, ...]) -> bool:
    calls = session.calls
    return any(
        all(calls[place + step].tool_id == tool for step, tool in enumerate(tools))
        and all(calls[place + step].outside_input is None for step in range(1, len(tools)))
        for place in range(len(calls) - len(tools) + 1)
    )


def _probability(sessions: Sequence[SessionTrace], first: str, second: str) -> float:
    pairs = Counter((one.tool_id, two.tool_id) for session in sessions for one, two in pairwise(session.calls))
    leaving = sum(count for (start, _), count in pairs.items() if start == first)
    return pairs[first, second] / leaving


def _confidence(sessions: Sequence[SessionTrace], tools: tuple[str, ...]) -> float:
    shares = [_probability(sessions, first, second) for first, second in pairwise(tools)]
    return sum(shares) / len(shares)
