"""The client and the API's own table of routes agree, so that neither can change without the other."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
import pytest

from tests.api_samples import BODIES
from twinraven.api import all_routes
from twinraven.foundation.json_schema import compile_schema
from twinraven.sdk import ObservedCall
from twinraven.sdk.exchange import Exchange
from twinraven.sdk.operations import Operations
from twinraven.sdk.wire import Reply, Stream, WireRequest, each, finish
from twinraven.serving.contract import Route
from twinraven.serving.metrics import HttpMetrics

NOW = datetime(2026, 1, 15, tzinfo=UTC)
OPERATION = {"type": "rest_call", "method": "GET", "path": "/orders"}
SCHEMA = {"type": "object"}
UUID_TEXT = "00000000-0000-4000-8000-000000000001"
ROUTES = sorted(all_routes(HttpMetrics()), key=lambda route: len(route.names))
"""The plainest first: where a word and a name fit, the word is meant."""

ASKED: dict[str, Callable[[Operations], Any]] = {
    "search": lambda o: o.search("tick", limit=5),
    "key_history": lambda o: o.key_history("k"),
    "savings": lambda o: o.savings(),
    "occasions": lambda o: o.occasions("t", 1),
    "learning_rounds": lambda o: o.learning_rounds(limit=5),
    "rehearse_maintenance": lambda o: o.rehearse_maintenance(),
    "run_maintenance": lambda o: o.run_maintenance(),
    "upstream_tools": lambda o: o.upstream_tools(changed=False),
    "accept_upstream_tools": lambda o: o.accept_upstream_tools(["git__log"]),
    "classify_upstream_tools": lambda o: o.classify_upstream_tools(["git__log"], "read", sensitivity="low"),
    "settings": lambda o: o.settings(),
    "doctor": lambda o: o.doctor(),
    "retention": lambda o: o.retention(days=90),
    "health_history": lambda o: o.health_history(since=datetime(2026, 1, 2, tzinfo=UTC), bucket_s=60),
    "sign_in": lambda o: o.sign_in(label="a browser"),
    "sign_ins": lambda o: o.sign_ins(),
    "sign_out": lambda o: o.sign_out("s"),
    "me": lambda o: o.me(),
    "call": lambda o: o.call("t", {"a": 1}, session_id="s", turn=1, outside_input="x", tags=["a"], task_id="k"),
    "invoke": lambda o: o.invoke("t", session_id="s", idempotency_key="k"),
    "tools": lambda o: o.tools(),
    "tool": lambda o: o.tool("t"),
    "tool_definition": lambda o: o.tool_definition("t"),
    "add_tool": lambda o: o.add_tool(
        "k",
        "s",
        OPERATION,
        SCHEMA,
        name="n",
        description="d",
        connection_params={"endpoint": "https://h"},
        output_schema=SCHEMA,
        effect="write",
        sensitivity="high",
        timeout_ms=5,
        secret="x",
        shared=True,
    ),
    "change_tool": lambda o: o.change_tool(
        "t", operation=OPERATION, output_schema=None, effect=None, timeout_ms=None, secret=None, sensitivity="low"
    ),
    "delete_tool": lambda o: o.delete_tool("t", version=3),
    "services": lambda o: o.services(),
    "service": lambda o: o.service("s"),
    "add_service": lambda o: o.add_service("n", "rest_api", "https", SCHEMA, requires_secret=True, shared=True),
    "change_service": lambda o: o.change_service("s", name="n", connection_schema=SCHEMA, enabled=False, version=3),
    "delete_service": lambda o: o.delete_service("s"),
    "check_service": lambda o: o.check_service("s"),
    "service_templates": lambda o: o.service_templates(archived=True),
    "service_template": lambda o: o.service_template("s"),
    "add_service_template": lambda o: o.add_service_template("n", "rest_api", "https", SCHEMA, description="d"),
    "change_service_template": lambda o: o.change_service_template("s", description=None, archived=False),
    "archive_service_template": lambda o: o.archive_service_template("s", version=3),
    "make_service": lambda o: o.make_service("s", "n", shared=True),
    "tool_templates": lambda o: o.tool_templates(),
    "tool_template": lambda o: o.tool_template("t"),
    "add_tool_template": lambda o: o.add_tool_template(
        "n", OPERATION, SCHEMA, output_schema=SCHEMA, effect="read", sensitivity="low", timeout_ms=5, shared=True
    ),
    "change_tool_template": lambda o: o.change_tool_template("t", name="n", description="d", shared=True, version=3),
    "archive_tool_template": lambda o: o.archive_tool_template("t"),
    "make_tool": lambda o: o.make_tool("t", "k", "s", connection_params={"endpoint": "https://h"}, secret="x"),
    "record": lambda o: o.record(
        [
            ObservedCall("s", "t", {}, output=1, turn=1, timestamp=NOW, outcome="success", tags=("a",)),
            ObservedCall("s", "t", {}, error="no", error_code="X", task_id="k", outside_input="x"),
        ]
    ),
    "events": lambda o: o.events(session_id="s", tool_id="t", tag="a", since=NOW, until=NOW, newest=True),
    "event": lambda o: o.event(UUID_TEXT),
    "follow": lambda o: o.follow(session_id="s", tool_id="t", after=3),
    "sessions": lambda o: o.sessions(outcome="success"),
    "newest_sessions": lambda o: o.newest_sessions(since=NOW, until=NOW, tool_id="t", failed=True, starts_with="a"),
    "activity": lambda o: o.activity(since=NOW, until=NOW, bucket_s=60, tool_id="t"),
    "transitions": lambda o: o.transitions(since=NOW, until=NOW, limit=5),
    "policy": lambda o: o.policy(),
    "session": lambda o: o.session("s"),
    "state_verdict": lambda o: o.state_verdict("s", "failure"),
    "chains": lambda o: o.chains(),
    "chain": lambda o: o.chain(UUID_TEXT),
    "start_learning": lambda o: o.start_learning(with_model=False),
    "learning_round": lambda o: o.learning_round(UUID_TEXT),
    "learned_tools": lambda o: o.learned_tools(),
    "learned_tool": lambda o: o.learned_tool("t"),
    "definition": lambda o: o.definition("t", 1),
    "review": lambda o: o.review("t", 1),
    "promote": lambda o: o.promote("t", version=1, rename_to="u", revision=3),
    "reject": lambda o: o.reject("t", "no", version=1, revision=3),
    "roll_back": lambda o: o.roll_back("t", 1, revision=3),
    "retire": lambda o: o.retire("t", note="n", revision=3),
    "quarantine": lambda o: o.quarantine("t", "odd"),
    "release": lambda o: o.release("t", revision=3),
    "check_process": lambda o: o.check_process({"id": "p"}),
    "save_process": lambda o: o.save_process({"id": "p"}, expected_version=0),
    "processes": lambda o: o.processes(),
    "process": lambda o: o.process("p", version=2),
    "process_versions": lambda o: o.process_versions("p"),
    "process_differences": lambda o: o.process_differences("p", before=1, after=2),
    "process_graph": lambda o: o.process_graph("p", version=1),
    "open_as_process": lambda o: o.open_as_process("t"),
    "run_graph": lambda o: o.run_graph("r"),
    "delete_process": lambda o: o.delete_process("p"),
    "run_process": lambda o: o.run_process("p", {"a": 1}, run_id="r", timeout_s=5),
    "create_conversation": lambda o: o.create_conversation(title="t", process_id="p"),
    "conversations": lambda o: o.conversations(status="archived"),
    "conversation": lambda o: o.conversation("c"),
    "rename_conversation": lambda o: o.rename_conversation("c", None),
    "prefer_process": lambda o: o.prefer_process("c", "p"),
    "archive_conversation": lambda o: o.archive_conversation("c"),
    "unarchive_conversation": lambda o: o.unarchive_conversation("c"),
    "fork_conversation": lambda o: o.fork_conversation("c", turn_id="t", alternative_id="a", title="n"),
    "converse": lambda o: o.converse("c", "hi", process_id="p", parent_turn="t", quotes=["a"]),
    "say": lambda o: o.say("c", "hi", speaker="system", turn_type="tool_result", parent_turn="t", quotes=["a"]),
    "answer_turn": lambda o: o.answer_turn("c", process_id="p", parent_turn="t"),
    "edit_turn": lambda o: o.edit_turn("c", "t", "hi", quotes=["a"]),
    "regenerate_turn": lambda o: o.regenerate_turn("c", "t", process_id="p"),
    "switch_alternative": lambda o: o.switch_alternative("c", "t", "a"),
    "turns": lambda o: o.turns("c"),
    "turn": lambda o: o.turn("c", "t"),
    "path": lambda o: o.path("c", turn_id="t"),
    "memory": lambda o: o.memory("c", turn_id="t", budget=100),
    "follow_answer": lambda o: o.follow_answer("c", "a"),
    "start_plan": lambda o: o.start_plan("Sell it.", ttl=3, tools=["t"], run_id="r", timeout_s=5),
    "plans": lambda o: o.plans(state="waiting"),
    "plan": lambda o: o.plan("r"),
    "plan_log": lambda o: o.plan_log("r"),
    "fork_plan": lambda o: o.fork_plan("r", "2", ttl=9),
    "save_plan": lambda o: o.save_plan("r", "p"),
    "start_run": lambda o: o.start_run("t", {"a": 1}, run_id="r", priority=5, timeout_s=60),
    "start_flow": lambda o: o.start_flow({"tool_id": "f"}, {"a": 1}, run_id="r"),
    "runs": lambda o: o.runs(state="waiting"),
    "run": lambda o: o.run("r"),
    "cancel_run": lambda o: o.cancel_run("r"),
    "resume_run": lambda o: o.resume_run("r"),
    "retry_run": lambda o: o.retry_run("r"),
    "fork_run": lambda o: o.fork_run("r", "2"),
    "answer_run": lambda o: o.answer_run("r", "0", True),
    "signal": lambda o: o.signal("paid", {"by": "card"}),
    "workers": lambda o: o.workers(),
    "campaigns": lambda o: o.campaigns(),
    "campaign": lambda o: o.campaign("c"),
    "add_campaign": lambda o: o.add_campaign("n", persona_id="p"),
    "change_campaign": lambda o: o.change_campaign("c", state_version=3, name="n", persona_id="p", status="paused"),
    "goals": lambda o: o.goals(campaign_id="c", status="pending"),
    "goal": lambda o: o.goal("g"),
    "add_goal": lambda o: o.add_goal("c", "d"),
    "cancel_goal": lambda o: o.cancel_goal("g", state_version=3),
    "plan_goal": lambda o: o.plan_goal("g", [{"name": "n"}], key="k", state_version=3),
    "propose_plan": lambda o: o.propose_plan("g", key="k"),
    "budgets": lambda o: o.budgets(campaign_id="c"),
    "budget": lambda o: o.budget("b"),
    "add_budget": lambda o: o.add_budget("c", "5.00", "EUR", name="n"),
    "change_budget": lambda o: o.change_budget("b", state_version=3, total="6.00", status="closed"),
    "tasks": lambda o: o.tasks(goal_id="g", campaign_id="c", status="review"),
    "ready_tasks": lambda o: o.ready_tasks(limit=3),
    "task": lambda o: o.task("t"),
    "task_specs": lambda o: o.task_specs("t"),
    "plan_task": lambda o: o.plan_task(BODIES["planTask"]),
    "revise_task": lambda o: o.revise_task("t", {"description": "d"}, state_version=3),
    "cancel_task": lambda o: o.cancel_task("t", state_version=3),
    "retry_task": lambda o: o.retry_task("t", state_version=3),
    "claim_task": lambda o: o.claim_task("t", state_version=3),
    "report_result": lambda o: o.report_result(BODIES["reportResult"]),
    "result": lambda o: o.result("r"),
    "evaluate_result": lambda o: o.evaluate_result("r"),
    "decide_result": lambda o: o.decide_result(BODIES["decideResult"]),
    "decisions": lambda o: o.decisions(decision="escalate", in_force=True),
    "decision": lambda o: o.decision("d"),
    "resolve_decision": lambda o: o.resolve_decision(
        "d", "reject", "no", override=True, required_actions=[{"action": "edit"}]
    ),
    "envelope": lambda o: o.envelope("e"),
    "approvals": lambda o: o.approvals(state="pending"),
    "approval": lambda o: o.approval("a"),
    "inbox": lambda o: o.inbox(kind="call"),
    "inbox_item": lambda o: o.inbox_item("call:a"),
    "reservations": lambda o: o.reservations(),
    "reserve_inbox_item": lambda o: o.reserve_inbox_item("call:a"),
    "release_inbox_item": lambda o: o.release_inbox_item("call:a"),
    "user_names": lambda o: o.user_names(),
    "trace": lambda o: o.trace("x"),
    "trace_svg": lambda o: o.trace_svg("x"),
    "publish": lambda o: o.publish(
        "t", "blog", "x", key="k", media_asset_id="a", disclosure="d", scheduled_at=NOW, provider="p"
    ),
    "post_message": lambda o: o.post_message("t", "mail", "ann", "x", key="k", scheduled_at=NOW, provider="p"),
    "pay": lambda o: o.pay("t", "w", "12.50", "EUR", "p", key="k", description="d", budget_id="b"),
    "publications": lambda o: o.publications(status="sent", task_id="t"),
    "publication": lambda o: o.publication("e"),
    "cancel_publication": lambda o: o.cancel_publication("e"),
    "reconcile_publication": lambda o: o.reconcile_publication("e"),
    "messages": lambda o: o.messages(status="sent", task_id="t"),
    "message": lambda o: o.message("e"),
    "cancel_message": lambda o: o.cancel_message("e"),
    "reconcile_message": lambda o: o.reconcile_message("e"),
    "transactions": lambda o: o.transactions(status="sent", task_id="t"),
    "transaction": lambda o: o.transaction("e"),
    "cancel_transaction": lambda o: o.cancel_transaction("e"),
    "reconcile_transaction": lambda o: o.reconcile_transaction("e"),
    "reverse_transaction": lambda o: o.reverse_transaction("e", "n"),
    "wallets": lambda o: o.wallets(),
    "wallet": lambda o: o.wallet("w"),
    "open_wallet": lambda o: o.open_wallet("c", "EUR", kind="commerce", provider="p", provider_ref="r"),
    "fund_wallet": lambda o: o.fund_wallet("w", "5.00", key="k"),
    "change_wallet": lambda o: o.change_wallet("w", "frozen", version=3),
    "wallet_statement": lambda o: o.wallet_statement("w"),
    "verify_ledger": lambda o: o.verify_ledger(),
    "add_asset": lambda o: o.add_asset("c", "image", "s3://x", task_id="t", width=3),
    "assets": lambda o: o.assets(task_id="t"),
    "asset": lambda o: o.asset("a"),
    "decide": lambda o: o.decide("call:a", "approve", bound_to="0123456789ab", note="n", answer=1),
    "grant": lambda o: o.grant("a", note="n"),
    "deny": lambda o: o.deny("a"),
    "add_episode": lambda o: o.add_episode("g", "n", "c", source="s", speaker="a", valid_at=NOW),
    "episodes": lambda o: o.episodes(group_id="g", speaker="a", source="s", since=NOW, until=NOW),
    "episode": lambda o: o.episode("e"),
    "search_knowledge": lambda o: o.search_knowledge(
        "q", group_id="g", limit=3, speaker="a", source="s", since=NOW, until=NOW, neighbours=1
    ),
    "entities": lambda o: o.entities(group_id="g", category="Place", name="n"),
    "entity": lambda o: o.entity("e"),
    "add_entity": lambda o: o.add_entity("n", "s", category="Person", group_id="g"),
    "state_fact": lambda o: o.state_fact("e", "lives_in", "v", valid_at=NOW, object_id="o", is_single=False),
    "merge_entities": lambda o: o.merge_entities("e", "f"),
    "undo_merge": lambda o: o.undo_merge("m"),
    "propose_merges": lambda o: o.propose_merges(group_id="g", merge_certain=True),
    "facts": lambda o: o.facts("e", relation="lives_in", at=NOW),
    "entity_merges": lambda o: o.entity_merges(entity_id="e"),
    "extract_anew": lambda o: o.extract_anew("g", by="model"),
    "knowledge_graph": lambda o: o.knowledge_graph("g"),
    "neighbourhood": lambda o: o.neighbourhood("e"),
    "enrich_entity": lambda o: o.enrich_entity("e"),
    "place_entity": lambda o: o.place_entity("e", "g", include_facets=True),
    "active_entities": lambda o: o.active_entities("g"),
    "compress": lambda o: o.compress("g", ["e"], covers_up_to_turn="t", covers_up_to_alternative="a"),
    "compression": lambda o: o.compression("c"),
    "summaries": lambda o: o.summaries(group_id="g", with_deleted=True),
    "summary": lambda o: o.summary("s"),
    "write_summary": lambda o: o.write_summary("g", ["e"], "c", covers_up_to_turn="t"),
    "repair_summary": lambda o: o.repair_summary("s", "c"),
    "state_coverage": lambda o: o.state_coverage("s", "t", covers_up_to_alternative="a"),
    "delete_summary": lambda o: o.delete_summary("s", recompress=True),
    "introspections": lambda o: o.introspections(user_id="u", with_archived=True),
    "introspection": lambda o: o.introspection("i"),
    "add_introspection": lambda o: o.add_introspection("c", user_id="u", position=1, conversation_context="x"),
    "correct_introspection": lambda o: o.correct_introspection("i", "c"),
    "delete_introspection": lambda o: o.delete_introspection("i"),
    "reflections": lambda o: o.reflections(user_id="u"),
    "metrics": lambda o: o.metrics(scope="tool"),
    "metric": lambda o: o.metric("m"),
    "define_metric": lambda o: o.define_metric(
        "n", scope="tool", aggregation="sum", data_type="integer", description="d", retention_days=3
    ),
    "change_metric": lambda o: o.change_metric("m", description="d", retention_days=4),
    "delete_metric": lambda o: o.delete_metric("m", cascade=True),
    "report_metric": lambda o: o.report_metric("m", "t", 3, timestamp=NOW, dimensions={"user": "u"}),
    "metric_values": lambda o: o.metric_values("m", since=NOW, until=NOW, entity_id="t", dimensions={"user": "u"}),
    "metric_series": lambda o: o.metric_series("m", bucket_s=60, aggregation="max"),
    "secrets": lambda o: o.secrets(),
    "secret": lambda o: o.secret("s"),
    "add_secret": lambda o: o.add_secret("n", "api_key", "v", shared=True),
    "rotate_secret": lambda o: o.rotate_secret("s", "v", version=1),
    "change_secret": lambda o: o.change_secret("s", name="n", shared=False),
    "delete_secret": lambda o: o.delete_secret("s", version=1),
    "audit": lambda o: o.audit(
        subject_type="a",
        subject_id="b",
        event_type="c",
        actor_id="d",
        correlation_id="e",
        newest=True,
        since=datetime(2026, 1, 2, tzinfo=UTC),
        until=datetime(2026, 1, 3, tzinfo=UTC),
    ),
    "audit_entry": lambda o: o.audit_entry("e"),
    "verify_audit": lambda o: o.verify_audit(),
    "users": lambda o: o.users(),
    "user": lambda o: o.user("u"),
    "add_user": lambda o: o.add_user("ada", role="admin"),
    "change_user": lambda o: o.change_user("u", role="member", active=False, version=3),
    "keys": lambda o: o.keys(),
    "issue_key": lambda o: o.issue_key(user_id="u", label="l", expires_in_days=3),
    "stream_token": lambda o: o.stream_token(),
    "revoke_key": lambda o: o.revoke_key("k"),
}

NOT_ASKED = {
    "receiveSpans": "for exporters of OpenTelemetry",
    "followNews": "tells pages when to ask again; programs follow the events",
    "alive": "for the orchestrator's probes, which speak HTTP themselves",
    "ready": "the same",
    "measure": "Prometheus text, for whatever scrapes it",
    "describe": "the contract itself, for generators of clients",
}
"""Operations of the API that the client leaves out, and why."""


class Heard(Exception):
    """The request that was to be seen has been."""

    def __init__(self, request: WireRequest) -> None:
        self.request = request


class ListeningWire:
    """Answers what a tool is, and ends with the first other request."""

    async def exchange(self, request: WireRequest) -> Reply:
        if request.method == "GET" and request.url.endswith("/v1/tools/t") and not self.wants_tool:
            body: dict[str, Any] = {"tool_id": "t", "description": "d", "input_schema": {}, "effect": "write"}
            return Reply(200, {}, orjson.dumps(body))
        raise Heard(request)

    def __init__(self, *, wants_tool: bool) -> None:
        self.wants_tool = wants_tool

    def stream(self, request: WireRequest) -> AbstractAsyncContextManager[Stream]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: WireRequest) -> AsyncGenerator[Stream]:
        yield Stream(await self.exchange(request), _nothing())

    async def pause(self, seconds: float) -> None:
        raise AssertionError(f"nothing to wait {seconds} s for")

    async def close(self) -> None:
        return


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield


def asked(name: str) -> WireRequest:
    wire = ListeningWire(wants_tool=name == "tool")
    work = ASKED[name](Operations(Exchange(wire, "http://h", "key")))
    try:
        list(each(work)) if hasattr(work, "__anext__") else finish(work)
    except Heard as heard:
        return heard.request
    raise AssertionError(f"{name} asked nothing")


def route_of(request: WireRequest) -> tuple[Route, dict[str, str]]:
    parts = [unquote(part) for part in urlsplit(request.url).path.split("/")]
    for route in ROUTES:
        pairs = list(zip_longest(route.path.split("/"), parts, fillvalue=""))
        if route.method == request.method and all(one == other or (one[:1] == "{" and other) for one, other in pairs):
            return route, {one.strip("{}"): other for one, other in pairs if one.startswith("{")}
    raise AssertionError(f"there is no route for {request.method} {request.url}")


@pytest.mark.parametrize("name", list(ASKED))
def test_what_the_client_asks_is_what_the_api_takes(name: str) -> None:
    """Path, query, body and headers of each operation fit the route they are meant for."""
    request = asked(name)
    route, values = route_of(request)
    for parameter, value in values.items():
        compile_schema(route.parameters.get(parameter, {"type": "string"})).check(value)
    known = {parameter.name for parameter in route.all_query}
    assert {parameter for parameter, _ in parse_qsl(urlsplit(request.url).query)} <= known
    if route.body is None:
        assert request.content is None
    else:
        compile_schema(route.body).check(orjson.loads(request.content or b""))
    if "Idempotency-Key" in request.headers:
        assert route.takes_key
    if route.matching == "must":
        assert "If-Match" in request.headers
    if "If-Match" in request.headers:
        assert route.matching != "no"


def test_every_operation_is_here() -> None:
    """An operation that nobody lists above would be checked by nobody."""
    members = dict(inspect.getmembers(Operations, callable))
    assert {name for name in members if not name.startswith("_")} == set(ASKED)


def test_the_client_can_ask_for_all_that_the_api_gives() -> None:
    """Each operation of the API has a method, or a reason why it has none; no reason outlives its operation."""
    covered = {route_of(asked(name))[0].name for name in ASKED}
    assert covered.isdisjoint(NOT_ASKED)
    assert covered | NOT_ASKED.keys() == {route.name for route in ROUTES}
