"""Implements the two clients. `AsyncClient` is the operations themselves; `Client` runs each of them to its end.

An operation is written once, with its signature: `finished` and `listed` give `Client` the same methods with the same
parameters, for type checkers and editors as well, and the only difference is that nothing has to be awaited.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from twinraven.foundation.errors import InvalidInput
from twinraven.sdk.exchange import Exchange
from twinraven.sdk.observing import AsyncSessionRecorder, SessionRecorder
from twinraven.sdk.operations import Operations
from twinraven.sdk.wire import BlockingWire, LoopWire, Wire, check_url, each, finish

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S: Final = 60.0
"""How long an answer may take; a tool may take half of it by default."""


class AsyncClient(Operations):
    """A server's API, on an event loop: `async with AsyncClient(url, key) as client:`."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        super().__init__(_exchange(LoopWire(timeout), url, key))

    def observe(self, session_id: str, *, task_id: str | None = None) -> AsyncSessionRecorder:
        """Records the calls of one session, made elsewhere; sends them at the latest when its block ends."""
        return AsyncSessionRecorder(self.record, session_id, task_id=task_id)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._exchange.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def finished(
    operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """Return the operation as a method that returns what it gives."""

    @wraps(operation)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        own = client._operations  # pyright: ignore[reportPrivateUsage] - this makes methods of that class
        return finish(operation(own, *args, **kwargs))

    return method


def listed(
    operation: Callable[Concatenate[Operations, P], AsyncGenerator[T]],
) -> Callable[Concatenate[Client, P], Iterator[T]]:
    """Return the operation as a method that returns an iterator of what it gives."""

    @wraps(operation)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        own = client._operations  # pyright: ignore[reportPrivateUsage] - as above
        return each(operation(own, *args, **kwargs))

    # What `help` shows would otherwise be what the operation itself returns.
    shown = signature(operation)
    given = str(shown.return_annotation).replace("AsyncGenerator", "Iterator")
    method.__signature__ = shown.replace(return_annotation=given)  # pyright: ignore[reportAttributeAccessIssue]
    return method


class Client:
    """A server's API, for programs without an event loop; several threads may share one."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        self._exchange = _exchange(BlockingWire(timeout), url, key)
        self._operations = Operations(self._exchange)

    me = finished(Operations.me)

    call = finished(Operations.call)
    invoke = finished(Operations.invoke)

    tools = listed(Operations.tools)
    tool = finished(Operations.tool)
    tool_definition = finished(Operations.tool_definition)
    add_tool = finished(Operations.add_tool)
    change_tool = finished(Operations.change_tool)
    delete_tool = finished(Operations.delete_tool)

    services = listed(Operations.services)
    service = finished(Operations.service)
    add_service = finished(Operations.add_service)
    change_service = finished(Operations.change_service)
    delete_service = finished(Operations.delete_service)
    check_service = finished(Operations.check_service)

    service_templates = listed(Operations.service_templates)
    service_template = finished(Operations.service_template)
    add_service_template = finished(Operations.add_service_template)
    change_service_template = finished(Operations.change_service_template)
    archive_service_template = finished(Operations.archive_service_template)
    make_service = finished(Operations.make_service)

    tool_templates = listed(Operations.tool_templates)
    tool_template = finished(Operations.tool_template)
    add_tool_template = finished(Operations.add_tool_template)
    change_tool_template = finished(Operations.change_tool_template)
    archive_tool_template = finished(Operations.archive_tool_template)
    make_tool = finished(Operations.make_tool)

    record = finished(Operations.record)
    events = listed(Operations.events)
    event = finished(Operations.event)
    follow = listed(Operations.follow)
    sessions = listed(Operations.sessions)
    newest_sessions = listed(Operations.newest_sessions)
    activity = finished(Operations.activity)
    transitions = finished(Operations.transitions)
    policy = finished(Operations.policy)
    session = finished(Operations.session)
    state_verdict = finished(Operations.state_verdict)

    chains = listed(Operations.chains)
    chain = finished(Operations.chain)

    start_learning = finished(Operations.start_learning)
    learning_round = finished(Operations.learning_round)

    learned_tools = listed(Operations.learned_tools)
    learned_tool = finished(Operations.learned_tool)
    definition = finished(Operations.definition)
    review = finished(Operations.review)
    promote = finished(Operations.promote)
    reject = finished(Operations.reject)
    roll_back = finished(Operations.roll_back)
    retire = finished(Operations.retire)
    quarantine = finished(Operations.quarantine)
    release = finished(Operations.release)

    check_process = finished(Operations.check_process)
    save_process = finished(Operations.save_process)
    processes = listed(Operations.processes)
    process = finished(Operations.process)
    process_versions = listed(Operations.process_versions)
    process_differences = finished(Operations.process_differences)
    process_graph = finished(Operations.process_graph)
    open_as_process = finished(Operations.open_as_process)
    delete_process = finished(Operations.delete_process)
    run_process = finished(Operations.run_process)

    create_conversation = finished(Operations.create_conversation)
    conversation = finished(Operations.conversation)
    rename_conversation = finished(Operations.rename_conversation)
    prefer_process = finished(Operations.prefer_process)
    archive_conversation = finished(Operations.archive_conversation)
    unarchive_conversation = finished(Operations.unarchive_conversation)
    fork_conversation = finished(Operations.fork_conversation)
    converse = finished(Operations.converse)
    say = finished(Operations.say)
    answer_turn = finished(Operations.answer_turn)
    edit_turn = finished(Operations.edit_turn)
    regenerate_turn = finished(Operations.regenerate_turn)
    switch_alternative = finished(Operations.switch_alternative)
    turn = finished(Operations.turn)
    path = finished(Operations.path)
    memory = finished(Operations.memory)
    conversations = listed(Operations.conversations)
    turns = listed(Operations.turns)
    follow_answer = listed(Operations.follow_answer)
    start_plan = finished(Operations.start_plan)
    plans = listed(Operations.plans)
    plan = finished(Operations.plan)
    plan_log = finished(Operations.plan_log)
    fork_plan = finished(Operations.fork_plan)
    save_plan = finished(Operations.save_plan)

    start_run = finished(Operations.start_run)
    start_flow = finished(Operations.start_flow)
    runs = listed(Operations.runs)
    run = finished(Operations.run)
    run_graph = finished(Operations.run_graph)
    cancel_run = finished(Operations.cancel_run)
    resume_run = finished(Operations.resume_run)
    retry_run = finished(Operations.retry_run)
    fork_run = finished(Operations.fork_run)
    answer_run = finished(Operations.answer_run)
    signal = finished(Operations.signal)
    workers = listed(Operations.workers)

    campaigns = listed(Operations.campaigns)
    campaign = finished(Operations.campaign)
    add_campaign = finished(Operations.add_campaign)
    change_campaign = finished(Operations.change_campaign)
    goals = listed(Operations.goals)
    goal = finished(Operations.goal)
    add_goal = finished(Operations.add_goal)
    cancel_goal = finished(Operations.cancel_goal)
    plan_goal = finished(Operations.plan_goal)
    propose_plan = finished(Operations.propose_plan)
    budgets = listed(Operations.budgets)
    budget = finished(Operations.budget)
    add_budget = finished(Operations.add_budget)
    change_budget = finished(Operations.change_budget)
    tasks = listed(Operations.tasks)
    ready_tasks = finished(Operations.ready_tasks)
    task = finished(Operations.task)
    task_specs = listed(Operations.task_specs)
    plan_task = finished(Operations.plan_task)
    revise_task = finished(Operations.revise_task)
    cancel_task = finished(Operations.cancel_task)
    retry_task = finished(Operations.retry_task)
    claim_task = finished(Operations.claim_task)
    report_result = finished(Operations.report_result)
    result = finished(Operations.result)
    evaluate_result = finished(Operations.evaluate_result)
    decide_result = finished(Operations.decide_result)
    decisions = listed(Operations.decisions)
    decision = finished(Operations.decision)
    resolve_decision = finished(Operations.resolve_decision)
    envelope = finished(Operations.envelope)

    approvals = listed(Operations.approvals)
    approval = finished(Operations.approval)
    grant = finished(Operations.grant)
    deny = finished(Operations.deny)

    secrets = listed(Operations.secrets)
    secret = finished(Operations.secret)
    add_secret = finished(Operations.add_secret)
    rotate_secret = finished(Operations.rotate_secret)
    change_secret = finished(Operations.change_secret)
    delete_secret = finished(Operations.delete_secret)

    audit = listed(Operations.audit)
    audit_entry = finished(Operations.audit_entry)
    verify_audit = finished(Operations.verify_audit)

    users = listed(Operations.users)
    user = finished(Operations.user)
    add_user = finished(Operations.add_user)
    change_user = finished(Operations.change_user)
    keys = listed(Operations.keys)
    issue_key = finished(Operations.issue_key)
    revoke_key = finished(Operations.revoke_key)
    stream_token = finished(Operations.stream_token)

    search = finished(Operations.search)
    key_history = finished(Operations.key_history)
    savings = finished(Operations.savings)
    occasions = finished(Operations.occasions)
    learning_rounds = finished(Operations.learning_rounds)
    rehearse_maintenance = finished(Operations.rehearse_maintenance)
    run_maintenance = finished(Operations.run_maintenance)
    upstream_tools = finished(Operations.upstream_tools)
    accept_upstream_tools = finished(Operations.accept_upstream_tools)
    classify_upstream_tools = finished(Operations.classify_upstream_tools)
    settings = finished(Operations.settings)
    doctor = finished(Operations.doctor)
    retention = finished(Operations.retention)
    health_history = finished(Operations.health_history)
    sign_in = finished(Operations.sign_in)
    sign_out = finished(Operations.sign_out)
    sign_ins = listed(Operations.sign_ins)

    add_episode = finished(Operations.add_episode)
    episodes = listed(Operations.episodes)
    episode = finished(Operations.episode)
    search_knowledge = finished(Operations.search_knowledge)
    entities = listed(Operations.entities)
    entity = finished(Operations.entity)
    add_entity = finished(Operations.add_entity)
    state_fact = finished(Operations.state_fact)
    facts = finished(Operations.facts)
    extract_anew = finished(Operations.extract_anew)
    knowledge_graph = finished(Operations.knowledge_graph)
    neighbourhood = finished(Operations.neighbourhood)
    enrich_entity = finished(Operations.enrich_entity)
    place_entity = finished(Operations.place_entity)
    active_entities = finished(Operations.active_entities)
    merge_entities = finished(Operations.merge_entities)
    entity_merges = listed(Operations.entity_merges)
    undo_merge = finished(Operations.undo_merge)
    propose_merges = finished(Operations.propose_merges)

    publish = finished(Operations.publish)
    post_message = finished(Operations.post_message)
    pay = finished(Operations.pay)
    publications = listed(Operations.publications)
    publication = finished(Operations.publication)
    cancel_publication = finished(Operations.cancel_publication)
    reconcile_publication = finished(Operations.reconcile_publication)
    messages = listed(Operations.messages)
    message = finished(Operations.message)
    cancel_message = finished(Operations.cancel_message)
    reconcile_message = finished(Operations.reconcile_message)
    transactions = listed(Operations.transactions)
    transaction = finished(Operations.transaction)
    cancel_transaction = finished(Operations.cancel_transaction)
    reconcile_transaction = finished(Operations.reconcile_transaction)
    reverse_transaction = finished(Operations.reverse_transaction)
    wallets = listed(Operations.wallets)
    wallet = finished(Operations.wallet)
    open_wallet = finished(Operations.open_wallet)
    fund_wallet = finished(Operations.fund_wallet)
    change_wallet = finished(Operations.change_wallet)
    wallet_statement = finished(Operations.wallet_statement)
    verify_ledger = finished(Operations.verify_ledger)
    add_asset = finished(Operations.add_asset)
    assets = listed(Operations.assets)
    asset = finished(Operations.asset)

    compress = finished(Operations.compress)
    compression = finished(Operations.compression)
    summaries = listed(Operations.summaries)
    summary = finished(Operations.summary)
    write_summary = finished(Operations.write_summary)
    repair_summary = finished(Operations.repair_summary)
    state_coverage = finished(Operations.state_coverage)
    delete_summary = finished(Operations.delete_summary)
    introspections = listed(Operations.introspections)
    introspection = finished(Operations.introspection)
    add_introspection = finished(Operations.add_introspection)
    correct_introspection = finished(Operations.correct_introspection)
    delete_introspection = finished(Operations.delete_introspection)
    reflections = finished(Operations.reflections)
    metrics = listed(Operations.metrics)
    metric = finished(Operations.metric)
    define_metric = finished(Operations.define_metric)
    change_metric = finished(Operations.change_metric)
    delete_metric = finished(Operations.delete_metric)
    report_metric = finished(Operations.report_metric)
    metric_values = listed(Operations.metric_values)
    metric_series = finished(Operations.metric_series)

    inbox = listed(Operations.inbox)
    inbox_item = finished(Operations.inbox_item)
    reservations = finished(Operations.reservations)
    reserve_inbox_item = finished(Operations.reserve_inbox_item)
    release_inbox_item = finished(Operations.release_inbox_item)
    user_names = finished(Operations.user_names)
    trace = finished(Operations.trace)
    trace_svg = finished(Operations.trace_svg)
    decide = finished(Operations.decide)

    def observe(self, session_id: str, *, task_id: str | None = None) -> SessionRecorder:
        """Records the calls of one session, made elsewhere; sends them at the latest when its block ends."""
        return SessionRecorder(self._operations.record, session_id, task_id=task_id)

    def close(self) -> None:
        """Close the connections."""
        finish(self._exchange.close())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _exchange(wire: Wire, url: str, key: str | None) -> Exchange:
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise InvalidInput("the key holds characters that no key has", field="key")
    return Exchange(wire, check_url(url), key)
