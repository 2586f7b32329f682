"""Conversations on both stores: trees of turns, answers by processes, forks, quotes, and episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.postgres import PostgresLogin
from tests.talking import BOB, Speaker, bound, settled, talking_home, talking_process
from tests.working import reach, working
from twinraven.app import TwinRaven
from twinraven.audit import AuditFilter
from twinraven.conversations import (
    MOST_CONTENT,
    AnswerUnfinished,
    ConversationArchived,
    ProcessUnsuitable,
    TooManyAlternatives,
    count_tokens,
)
from twinraven.engine import RunEnd
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, NotFound, StorageError, TwinRavenError
from twinraven.models import ModelNotConfigured
from twinraven.storage import Transaction
from twinraven.tenancy import LOCAL, Principal


@pytest.fixture
def speaker() -> Speaker:
    return Speaker()


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path, speaker: Speaker) -> Generator[TwinRaven]:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    with talking_home(tmp_path, speaker, postgres=login) as raven:
        yield raven


async def begun(raven: TwinRaven) -> str:
    """A new conversation in a home that has a process `plain`."""
    await raven.processes.save(talking_process("plain"), by=LOCAL)
    return (await raven.conversations.create(by=LOCAL)).conversation_id


@pytest.mark.req("AD-16")
async def test_a_conversation_is_kept_and_its_process_is_a_hint(raven: TwinRaven) -> None:
    """Created without a process, renamed, archived and back; only enabled processes are preferred, since the choice."""
    talk = raven.conversations
    made = await talk.create(by=LOCAL, title="Orders")
    assert (made.title, made.status, made.default_process) == ("Orders", "active", None)
    await raven.processes.save(talking_process("plain"), by=LOCAL)
    await raven.processes.save(talking_process("other"), by=LOCAL)
    await raven.processes.save(talking_process("off", enabled=False), by=LOCAL)
    assert made.default_since is None
    chosen = await talk.choose_process(made.conversation_id, "plain", by=LOCAL)
    assert chosen.default_process == "plain"
    assert chosen.default_since is not None
    assert chosen.default_since >= made.created_at
    again = await talk.choose_process(made.conversation_id, "plain", by=LOCAL)
    assert again.default_since == chosen.default_since
    with pytest.raises(ProcessUnsuitable, match="off"):
        await talk.choose_process(made.conversation_id, "off", by=LOCAL)
    with pytest.raises(ProcessUnsuitable, match="nothing"):
        await talk.choose_process(made.conversation_id, "nothing", by=LOCAL)
    assert [(await talk.rename(made.conversation_id, each, by=LOCAL)).title for each in (None, "Late orders")] == [
        None,
        "Late orders",
    ]
    await talk.say(made.conversation_id, "hello", by=LOCAL)
    answer = await talk.answer(made.conversation_id, process_id="other", by=LOCAL)
    assert (await talk.get(made.conversation_id, by=LOCAL)).default_process == "other"
    assert answer.active.process_id == "other"
    await talk.regenerate(made.conversation_id, answer.turn_id, process_id="plain", by=LOCAL)
    assert (await talk.get(made.conversation_id, by=LOCAL)).default_process == "plain"
    assert (await talk.archive(made.conversation_id, by=LOCAL)).status == "archived"
    assert await talk.list(by=LOCAL, status="active") == []
    with pytest.raises(ConversationArchived):
        await talk.say(made.conversation_id, "more", by=LOCAL)
    with pytest.raises(ConversationArchived):
        await talk.rename(made.conversation_id, "x", by=LOCAL)
    assert [each.status for each in await talk.list(by=LOCAL, status="archived")] == ["archived"]
    assert (await talk.unarchive(made.conversation_id, by=LOCAL)).status == "active"
    assert [each.conversation_id for each in await talk.list(by=LOCAL)] == [made.conversation_id]
    entries = await raven.audit.entries("default", AuditFilter(subject_id=made.conversation_id))
    assert [entry.event_type.partition(".")[2] for entry in entries] == ["created", "archived", "unarchived"]
    chosen = await talk.create(by=LOCAL, process_id="other")
    assert (chosen.default_process, chosen.default_since is not None) == ("other", True)
    with pytest.raises((AppendOnly, StorageError)):
        await raven.database.write("default", lambda tx: tx.execute("DELETE FROM conversations"))


@pytest.mark.req("AD-16")
async def test_a_conversation_is_its_owners(raven: TwinRaven) -> None:
    """Others are told that it is not there, and an administrator sees it."""
    ada = Principal("default", (await raven.tenancy.add_user("default", "ada")).user_id, "member")
    conversation = await raven.conversations.create(by=ada)
    with pytest.raises(NotFound):
        await raven.conversations.get(conversation.conversation_id, by=BOB)
    with pytest.raises(NotFound):
        await raven.conversations.say(conversation.conversation_id, "hi", by=BOB)
    assert not await raven.conversations.list(by=BOB)
    assert (await raven.conversations.get(conversation.conversation_id, by=LOCAL)).owner_id == ada.user_id


@pytest.mark.req("AD-17", "AD-19")
async def test_turns_and_alternatives_form_a_tree(raven: TwinRaven, speaker: Speaker) -> None:
    """Depth is the sequence, one alternative is active; an edit makes the answer stale, switching back valid again."""
    talk, conversation_id = raven.conversations, await begun(raven)
    async with working(raven):
        said, answer = await talk.converse(conversation_id, "first", process_id="plain", by=LOCAL)
        done = await settled(raven, answer)
        assert done.content == "answer 1 to first"
        assert done.responds_to == said.active.alternative_id
        assert (done.process_id, done.process_version, said.active.process_id) == ("plain", 1, None)
        assert (said.sequence, answer.sequence, answer.parent_turn) == (1, 2, said.turn_id)
        assert answer.via_alternative == said.active.alternative_id
        edited = await talk.edit(conversation_id, said.turn_id, "first, reworded", by=LOCAL)
        assert [(each.sequence, each.is_active) for each in edited.alternatives] == [(1, False), (2, True)]
        assert [each.has_children for each in edited.alternatives] == [True, False]
        assert (await settled(raven, answer)).cache_status == "stale"
        again = await talk.regenerate(conversation_id, answer.turn_id, by=LOCAL)
        assert again.active.cache_status == "generating"
        fresh = await settled(raven, again)
        assert (fresh.content, fresh.cache_status) == ("answer 2 to first, reworded", "valid")
        assert fresh.responds_to == edited.active.alternative_id
        assert speaker.shown[1] == [{"role": "user", "content": "first, reworded"}]
        back = await talk.switch(conversation_id, said.turn_id, said.active.alternative_id, by=LOCAL)
        assert back.active.alternative_id == said.active.alternative_id
        assert (await settled(raven, answer)).cache_status == "stale"
        await talk.switch(conversation_id, answer.turn_id, done.alternative_id, by=LOCAL)
        assert (await settled(raven, answer)).cache_status == "valid"


@pytest.mark.req("AD-17")
async def test_nothing_that_was_said_changes(raven: TwinRaven) -> None:
    """The database refuses to change or remove turns, alternatives, contents, and a second active alternative."""
    talk, conversation_id = raven.conversations, await begun(raven)
    turn = await talk.say(conversation_id, "hello", by=LOCAL)
    await talk.edit(conversation_id, turn.turn_id, "hello again", by=LOCAL)
    told = await talk.say(conversation_id, "42", speaker="system", turn_type="tool_result", by=LOCAL)
    assert (told.speaker, told.turn_type, turn.speaker, turn.turn_type) == ("system", "tool_result", "user", "message")
    with pytest.raises(InvalidInput, match="an agent's words are its process's"):
        await talk.say(conversation_id, "I said so", speaker="agent", by=LOCAL)
    for statement in (
        "UPDATE alternative_outcomes SET content = 'other'",
        "DELETE FROM alternative_outcomes",
        "UPDATE conversation_turns SET sequence = 7",
        "DELETE FROM conversation_turns",
        "DELETE FROM alternatives",
        "UPDATE alternatives SET responds_to = 'x'",
        "UPDATE alternatives SET process_id = 'x', process_version = 1",
        "UPDATE alternatives SET is_active = 1",
        "UPDATE conversations SET owner_id = 'bob'",
    ):
        with pytest.raises(TwinRavenError):
            await raven.database.write("default", lambda tx, statement=statement: tx.execute(statement))
    assert [each.content for each in (await talk.turn(conversation_id, turn.turn_id, by=LOCAL)).alternatives] == [
        "hello",
        "hello again",
    ]


@pytest.mark.req("AD-17", "AD-09")
async def test_regeneration_follows_executed_by(raven: TwinRaven, speaker: Speaker) -> None:
    """Again means the same process in the same version; another process is stated, and only then the hint follows."""
    talk, conversation_id = raven.conversations, await begun(raven)
    async with working(raven):
        _, answer = await talk.converse(conversation_id, "hi", process_id="plain", by=LOCAL)
        await settled(raven, answer)
        await raven.processes.save(talking_process("plain", "new: {{text}}"), by=LOCAL)
        await raven.processes.save(talking_process("loud", "LOUD {{text}}"), by=LOCAL)
        again = await settled(raven, await talk.regenerate(conversation_id, answer.turn_id, by=LOCAL))
        assert (again.process_version, again.content) == (1, "answer 2 to hi")
        loud = await settled(raven, await talk.regenerate(conversation_id, answer.turn_id, process_id="loud", by=LOCAL))
        assert (loud.process_id, loud.content) == ("loud", "LOUD answer 3 to hi")
        assert (await talk.get(conversation_id, by=LOCAL)).default_process == "loud"
        newest = await talk.regenerate(conversation_id, answer.turn_id, process_id="plain", by=LOCAL)
        assert (await settled(raven, newest)).process_version == 2
        assert (await talk.turn(conversation_id, answer.turn_id, by=LOCAL)).alternatives[0].process_version == 1


@pytest.mark.req("AD-09")
async def test_a_process_that_a_conversation_refers_to_is_not_deleted(raven: TwinRaven) -> None:
    """Neither one that is preferred nor one that an answer was made by, whatever is preferred since."""
    talk, conversation_id = raven.conversations, await begun(raven)
    await raven.processes.save(talking_process("other"), by=LOCAL)
    await raven.processes.save(talking_process("unused"), by=LOCAL)
    await talk.choose_process(conversation_id, "plain", by=LOCAL)
    with pytest.raises(Conflict, match="conversation"):
        await raven.processes.delete("plain", by=LOCAL)
    await talk.say(conversation_id, "hi", by=LOCAL)
    await talk.answer(conversation_id, process_id="other", by=LOCAL)
    await talk.choose_process(conversation_id, "plain", by=LOCAL)
    with pytest.raises(Conflict, match="conversation"):
        await raven.processes.delete("other", by=LOCAL)
    await raven.processes.delete("unused", by=LOCAL)


@pytest.mark.req("AD-18", "AD-20")
async def test_a_fork_copies_the_active_path(raven: TwinRaven, speaker: Speaker) -> None:
    """Up to the origin, which is recorded; the copy goes its own way, and the original knows nothing of it."""
    talk, conversation_id = raven.conversations, await begun(raven)
    speaker.gate = asyncio.Event()
    async with working(raven):
        said, answer = await talk.converse(conversation_id, "one", process_id="plain", by=LOCAL)
        with pytest.raises(AnswerUnfinished):
            await talk.fork(conversation_id, by=LOCAL)
        speaker.gate.set()
        done = await settled(raven, answer)
        edited = await talk.edit(conversation_id, said.turn_id, "uno", by=LOCAL)
        await talk.switch(conversation_id, said.turn_id, said.active.alternative_id, by=LOCAL)
        await talk.say(conversation_id, "two", speaker="system", turn_type="tool_result", by=LOCAL)
        other = next(each for each in edited.alternatives if each.alternative_id != said.active.alternative_id)
        with pytest.raises(InvalidInput, match="is not the active alternative"):
            await talk.fork(conversation_id, turn_id=said.turn_id, alternative_id=other.alternative_id, by=LOCAL)
        fork = await talk.fork(conversation_id, turn_id=answer.turn_id, title="Another way", by=LOCAL)
        assert fork.forked_from is not None
        assert (fork.forked_from.conversation_id, fork.forked_from.turn_id) == (conversation_id, answer.turn_id)
        assert fork.forked_from.alternative_id == done.alternative_id
        path = await talk.path(fork.conversation_id, by=LOCAL)
        assert [(turn.sequence, turn.speaker, turn.active.content) for turn in path] == [
            (1, "user", "one"),
            (2, "agent", "answer 1 to one"),
        ]
        assert all(len(turn.alternatives) == 1 for turn in path)
        assert (path[1].active.process_id, path[1].active.process_version) == ("plain", 1)
        assert not {turn.turn_id for turn in path} & {said.turn_id, answer.turn_id}
        _, more = await talk.converse(fork.conversation_id, "three", by=LOCAL)
        await settled(raven, more)
        whole = await talk.fork(conversation_id, by=LOCAL)
        copied, path = [await talk.path(each, by=LOCAL) for each in (whole.conversation_id, conversation_id)]
        told = [[(turn.speaker, turn.turn_type, turn.active.content) for turn in each] for each in (copied, path)]
        assert (told[0], whole.current_turn_id, len(path)) == (told[1], copied[-1].turn_id, 3)
        assert len(await bound(raven, whole.conversation_id)) == 3
    await talk.archive(conversation_id, by=LOCAL)
    with pytest.raises(ConversationArchived):
        await talk.fork(conversation_id, by=LOCAL)


@pytest.mark.req("AD-18", "AD-22")
async def test_a_quote_is_recorded_and_shown_as_quoted(raven: TwinRaven, speaker: Speaker) -> None:
    """What another branch says is taken in by name, sent as a quote, and never becomes path."""
    talk, conversation_id = raven.conversations, await begun(raven)
    async with working(raven):
        said, answer = await talk.converse(conversation_id, "one", process_id="plain", by=LOCAL)
        first = await settled(raven, answer)
        second = await settled(raven, await talk.regenerate(conversation_id, answer.turn_id, by=LOCAL))
        asked, reply = await talk.converse(conversation_id, "and?", quotes=[first.alternative_id], by=LOCAL)
        await settled(raven, reply)
    assert asked.active.quotes == (first.alternative_id,)
    assert asked.active.as_json()["quotes"] == [first.alternative_id]
    memory = await talk.memory(conversation_id, turn_id=asked.turn_id, by=LOCAL)
    assert [(item.kind, item.alternative_id) for item in memory.items] == [
        ("path", said.active.alternative_id),
        ("path", second.alternative_id),
        ("quote", first.alternative_id),
        ("path", asked.active.alternative_id),
    ]
    quote = memory.of("quote")[0]
    assert quote.text.startswith("Quoted")
    assert str(first.content) in quote.text
    assert quote.text in [message["content"] for message in speaker.shown[-1]]
    assert first.alternative_id not in [item["alternative_id"] for item in memory.as_json()["immediate_path"]]
    with pytest.raises(InvalidInput, match="on the path"):
        await talk.say(conversation_id, "x", quotes=[second.alternative_id], by=LOCAL)
    elsewhere = await talk.create(by=LOCAL)
    with pytest.raises(NotFound, match="quotes: this conversation has no alternative"):
        await talk.say(elsewhere.conversation_id, "x", quotes=[first.alternative_id], by=LOCAL)
    both = [reply.active.alternative_id, first.alternative_id]
    edited = await talk.edit(conversation_id, asked.turn_id, "so?", quotes=both, by=LOCAL)
    assert edited.active.quotes == tuple(both)
    memory = await talk.memory(conversation_id, turn_id=asked.turn_id, by=LOCAL)
    assert [item.alternative_id for item in memory.of("quote")] == both


@pytest.mark.req("AD-22")
async def test_working_memory_is_the_active_path_and_its_exact_sum(raven: TwinRaven) -> None:
    """Only active alternatives enter, tokens add up, and it is the same however often it is computed."""
    talk, conversation_id = raven.conversations, await begun(raven)
    async with working(raven):
        said, answer = await talk.converse(conversation_id, "SECRETLESS one", process_id="plain", by=LOCAL)
        await settled(raven, answer)
        edited = await talk.edit(conversation_id, said.turn_id, "uno", by=LOCAL)
        memory = await talk.memory(conversation_id, by=LOCAL)
        assert [item.text for item in memory.items] == ["uno"]
        assert memory.material.current_alternative_id == edited.active.alternative_id
        await talk.switch(conversation_id, said.turn_id, said.active.alternative_id, by=LOCAL)
        memory = await talk.memory(conversation_id, by=LOCAL)
        assert [item.text for item in memory.items] == ["SECRETLESS one", "answer 1 to SECRETLESS one"]
        assert memory.total_tokens == sum(count_tokens(item.text) for item in memory.items) > 0
        assert all(item.why for item in memory.items)
        again = await talk.memory(conversation_id, by=LOCAL)
        assert again.messages == memory.messages
        small = await talk.memory(conversation_id, budget=memory.items[-1].tokens, by=LOCAL)
        assert [item.text for item in small.items] == ["answer 1 to SECRETLESS one"]
        assert [(each.kind, each.id) for each in small.left_out] == [("path", said.active.alternative_id)]
        await bound(raven, conversation_id)
        path = (await talk.memory(conversation_id, by=LOCAL)).as_json()["immediate_path"]
        assert all(place["episode_id"] for place in path)


@pytest.mark.req("AD-20")
async def test_what_was_said_becomes_one_episode_each(raven: TwinRaven, speaker: Speaker) -> None:
    """After the turn and by a worker: named for the alternative, in the conversation's group, bound once."""
    talk, conversation_id = raven.conversations, await begun(raven)
    long = f"{'word ' * 3_000}and no more"
    said = await talk.say(conversation_id, "the parcel went to Lisbon", by=LOCAL)
    assert said.active.episode_id is None
    assert not await raven.knowledge.episodes("default", group_id=conversation_id)
    edited = await talk.edit(conversation_id, said.turn_id, "the parcel went to Porto", by=LOCAL)
    given = await talk.say(conversation_id, long, speaker="system", turn_type="tool_result", by=LOCAL)
    told = await talk.say(conversation_id, long.replace("word", "text"), by=LOCAL)
    await talk.say(conversation_id, "so far: a parcel", speaker="system", turn_type="summary", by=LOCAL)
    speaker.failures = 1
    async with working(raven):
        failed = await settled(raven, await talk.answer(conversation_id, process_id="plain", by=LOCAL))
        found = await bound(raven, conversation_id)
    assert failed.state == "failed"
    assert failed.episode_id is None
    episodes = {each.name: each for each in await raven.knowledge.episodes("default", group_id=conversation_id)}
    assert list(episodes) == [f"Turn:{turn.active.alternative_id}" for turn in (said, edited, given, told)]
    whole = {name: await raven.knowledge.episode("default", each.episode_id) for name, each in episodes.items()}
    contents = {each.alternative_id: whole[f"Turn:{each.alternative_id}"] for each in found if each.content is not None}
    first = contents[said.active.alternative_id]
    assert (first.content, first.speaker, first.valid_at) == (
        "the parcel went to Lisbon",
        "user",
        said.active.settled_at,
    )
    (result,) = [episode for episode in contents.values() if episode.source == "tool_result"]
    assert (result.speaker, result.content.endswith("and no more")) == ("system", True)
    lengths = {episode.source: len(episode.content) for episode in contents.values() if len(episode.content) > 1_000}
    assert lengths["tool_result"] < 2_100
    assert lengths["message"] == len(long)
    assert max(episode.parts for episode in contents.values()) > 1
    assert {each.episode_id for each in found if each.episode_id} == {each.episode_id for each in episodes.values()}
    hits = await raven.knowledge.search("default", "where did the parcel go, Porto?", group_id=conversation_id)
    assert any("Porto" in hit.content for hit in hits)
    again = await talk.say(conversation_id, "and back again", by=LOCAL)
    await asyncio.gather(*(talk.write_episodes("default", conversation_id) for _ in range(4)))
    (alternative,) = (await talk.turn(conversation_id, again.turn_id, by=LOCAL)).alternatives
    last = (await raven.knowledge.episodes("default", group_id=conversation_id))[-1]
    assert (alternative.episode_id, last.content) == (last.episode_id, "and back again")


@pytest.mark.req("AD-20")
async def test_what_nobody_answered_becomes_an_episode_too(raven: TwinRaven, speaker: Speaker) -> None:
    """A message whose answer fails is remembered, and so is whatever comes after all before it had its episode."""
    talk, conversation_id = raven.conversations, await begun(raven)
    speaker.failures = 1
    async with working(raven):
        said, answer = await talk.converse(conversation_id, "one", process_id="plain", by=LOCAL)
        assert (await settled(raven, answer)).state == "failed"
        await bound(raven, conversation_id)
        await talk.edit(conversation_id, said.turn_id, "uno", by=LOCAL)
        found = await bound(raven, conversation_id)
        assert [each.content for each in found if each.content] == ["one", "uno"]
        speaker.gate = asyncio.Event()
        _, late = await talk.converse(conversation_id, "two", process_id="plain", by=LOCAL)
        await bound(raven, conversation_id)
        speaker.gate.set()
        answered = await settled(raven, late)
        assert answered.alternative_id in [each.alternative_id for each in await bound(raven, conversation_id)]
    await talk.say(conversation_id, "three", by=LOCAL)
    (writing,) = await raven.runs.list("default", target="house:episodes", state="queued")
    end = RunEnd("default", writing.run_id, "succeeded")
    await raven.database.write("default", lambda tx: talk.on_run_end(tx, end))
    queued = await raven.runs.list("default", target="house:episodes", state="queued")
    assert len(queued) == 2, "what was said while one run ended is written by another"


@pytest.mark.req("AD-20", "AD-22")
async def test_what_a_model_is_shown_is_not_ingested_again(raven: TwinRaven) -> None:
    """An episode holds what its alternative says, and nothing that it quotes or was sent."""
    talk, conversation_id = raven.conversations, await begun(raven)
    async with working(raven):
        _said, answer = await talk.converse(conversation_id, "zebra", process_id="plain", by=LOCAL)
        first = await settled(raven, answer)
        await settled(raven, await talk.regenerate(conversation_id, answer.turn_id, by=LOCAL))
        asked = await talk.say(conversation_id, "and now?", quotes=[first.alternative_id], by=LOCAL)
        await bound(raven, conversation_id)
    episodes = await raven.knowledge.episodes("default", group_id=conversation_id)
    named = {each.name: each.content for each in episodes}
    assert named[f"Turn:{asked.active.alternative_id}"] == "and now?"
    assert sorted(content for content in named.values() if "zebra" in content) == [
        "answer 1 to zebra",
        "answer 2 to zebra",
        "zebra",
    ]


@pytest.mark.req("AD-17", "AD-19")
async def test_an_answer_fails_with_its_error_and_can_be_made_again(raven: TwinRaven, speaker: Speaker) -> None:
    """The alternative says what went wrong; another one answers, and what failed stays."""
    talk, conversation_id = raven.conversations, await begun(raven)
    speaker.failures = 1
    async with working(raven):
        said, answer = await talk.converse(conversation_id, "hi", process_id="plain", by=LOCAL)
        failed = await settled(raven, answer)
        assert (failed.state, failed.cache_status) == ("failed", "valid")
        assert failed.error is not None
        assert "lost for words" in failed.error["message"]
        retried = await raven.runs.retry(str(failed.run_id), by=LOCAL)
        again = await settled(raven, await talk.regenerate(conversation_id, answer.turn_id, by=LOCAL))
        assert again.state == "done"
        await reach(raven, retried.run_id, "succeeded")
    kept = (await talk.turn(conversation_id, answer.turn_id, by=LOCAL)).alternatives[0]
    assert (kept.state, kept.content) == ("failed", None)
    await talk.edit(conversation_id, said.turn_id, "hello", by=LOCAL)
    kept = (await talk.turn(conversation_id, answer.turn_id, by=LOCAL)).alternatives[0]
    assert kept.cache_status == "stale"


async def test_a_cancelled_run_fails_its_answer(raven: TwinRaven) -> None:
    """Whoever cancels the run ends the answer; nothing generates for ever."""
    talk, conversation_id = raven.conversations, await begun(raven)
    _, answer = await talk.converse(conversation_id, "hi", process_id="plain", by=LOCAL)
    assert answer.active.cache_status == "generating"
    await raven.runs.cancel(str(answer.active.run_id), by=LOCAL)
    failed = await settled(raven, answer)
    assert failed.error is not None
    assert failed.error["code"] == "RUN_CANCELLED"


@pytest.mark.req("AD-16", "AD-17")
async def test_bad_input_is_named_and_writes_nothing(raven: TwinRaven) -> None:
    """Each mistake has a stable code and names its field; the conversation is as it was."""
    talk, conversation_id = raven.conversations, await begun(raven)
    other = await talk.create(by=LOCAL)
    foreign = await talk.say(other.conversation_id, "elsewhere", by=LOCAL)
    said = await talk.say(conversation_id, "here", by=LOCAL)
    second = await talk.say(conversation_id, "below", by=LOCAL)
    await raven.processes.save(talking_process("off", enabled=False), by=LOCAL)
    greedy = talking_process("greedy", initialContext=["prompt", "messages", "weather"])
    await raven.processes.save(greedy, by=LOCAL)
    generating = await talk.answer(conversation_id, process_id="plain", by=LOCAL)
    empty = await talk.create(by=LOCAL)
    before = await _everything(raven)
    elsewhere, below = foreign.active.alternative_id, second.active.alternative_id
    here = conversation_id
    for attempt, code, field in (
        (talk.say(here, "x", parent_turn=foreign.turn_id, by=LOCAL), "NOT_FOUND", "parent_turn"),
        (talk.say(here, "x", parent_turn="nothing", by=LOCAL), "NOT_FOUND", "parent_turn"),
        (talk.say(here, "x", by=LOCAL), "ANSWER_UNFINISHED", "parent_turn"),
        (talk.fork(here, by=LOCAL), "ANSWER_UNFINISHED", "turn_id"),
        (talk.switch(here, said.turn_id, below, by=LOCAL), "VALIDATION_FAILED", "alternative_id"),
        (talk.switch(here, said.turn_id, elsewhere, by=LOCAL), "NOT_FOUND", "alternative_id"),
        (talk.switch(here, foreign.turn_id, elsewhere, by=LOCAL), "NOT_FOUND", "turn_id"),
        (talk.say(here, "x", parent_turn=said.turn_id, quotes=[elsewhere], by=LOCAL), "NOT_FOUND", "quotes"),
        (talk.answer(here, parent_turn=said.turn_id, process_id="off", by=LOCAL), "PROCESS_UNSUITABLE", "process_id"),
        (talk.answer(here, parent_turn=said.turn_id, process_id="none", by=LOCAL), "PROCESS_UNSUITABLE", "process_id"),
        (talk.converse(here, "x", process_id="greedy", by=LOCAL), "PROCESS_UNSUITABLE", "process_id"),
        (talk.say(here, "x" * (MOST_CONTENT + 1), by=LOCAL), "VALIDATION_FAILED", "content"),
        (talk.say(here, "a\0b", by=LOCAL), "VALIDATION_FAILED", "content"),
        (talk.say(here, "a\ud800b", by=LOCAL), "VALIDATION_FAILED", "content"),
        (talk.say(here, "  ", by=LOCAL), "VALIDATION_FAILED", "content"),
        (talk.say(here, "x", speaker="agent", by=LOCAL), "VALIDATION_FAILED", "speaker"),
        (talk.edit(here, generating.turn_id, "x", by=LOCAL), "VALIDATION_FAILED", "content"),
        (talk.regenerate(here, said.turn_id, by=LOCAL), "VALIDATION_FAILED", "content"),
        (talk.create(by=LOCAL, title="a\nb"), "VALIDATION_FAILED", "title"),
        (talk.memory(here, budget=0, by=LOCAL), "VALIDATION_FAILED", "budget"),
        (talk.answer(empty.conversation_id, process_id="plain", by=LOCAL), "VALIDATION_FAILED", "parent_turn"),
    ):  # fmt: skip
        with pytest.raises(TwinRavenError) as raised:
            await attempt
        assert (raised.value.code, raised.value.details.get("field")) == (code, field)
    assert await _everything(raven) == before


async def _everything(raven: TwinRaven) -> dict[str, int]:
    tables = (
        "conversations",
        "conversation_turns",
        "alternatives",
        "alternative_outcomes",
        "alternative_quotes",
        "runs",
    )

    def work(tx: Transaction) -> dict[str, int]:
        return {table: tx.fetch_all(f"SELECT COUNT(*) AS count FROM {table}")[0]["count"] for table in tables}

    return await raven.database.read("default", work)


async def test_a_turn_has_a_thousand_alternatives_at_most(raven: TwinRaven, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is refused with a code, and the turn is as it was."""
    monkeypatch.setattr("twinraven.conversations.building.MOST_ALTERNATIVES", 3)
    talk, conversation_id = raven.conversations, await begun(raven)
    turn = await talk.say(conversation_id, "1", by=LOCAL)
    for number in (2, 3):
        await talk.edit(conversation_id, turn.turn_id, str(number), by=LOCAL)
    with pytest.raises(TooManyAlternatives) as raised:
        await talk.edit(conversation_id, turn.turn_id, "4", by=LOCAL)
    assert raised.value.details["field"] == "turn_id"
    assert (await talk.turn(conversation_id, turn.turn_id, by=LOCAL)).active.content == "3"


async def test_without_a_model_the_error_says_how_to_configure_one(raven: TwinRaven) -> None:
    """Nothing is written, and the fix names the setting."""
    conversation = await raven.conversations.create(by=LOCAL)
    with pytest.raises(ModelNotConfigured) as raised:
        await raven.conversations.converse(conversation.conversation_id, "hi", by=LOCAL)
    assert "model.name" in str(raised.value.details["fix"])
    assert not await raven.conversations.turns(conversation.conversation_id, by=LOCAL)


async def test_secrets_are_taken_out_of_what_is_said(raven: TwinRaven) -> None:
    """A value of the vault stands in no column of a conversation."""
    await raven.vault.create("default", "local", name="key", type="api_key", value="hunter2-hunter2-hunter2")
    conversation_id = await begun(raven)
    turn = await raven.conversations.say(conversation_id, "use hunter2-hunter2-hunter2 please", by=LOCAL)
    assert "hunter2" not in str(turn.active.content)


@pytest.mark.req("AD-19")
async def test_answers_that_come_while_others_wait(raven: TwinRaven, speaker: Speaker) -> None:
    """While one is being generated it says so and may be given up for another, which it cannot undo."""
    talk, conversation_id = raven.conversations, await begun(raven)
    speaker.gate = asyncio.Event()
    async with working(raven):
        _, answer = await talk.converse(conversation_id, "hi", process_id="plain", by=LOCAL)
        with pytest.raises(AnswerUnfinished):
            await talk.say(conversation_id, "hurry", by=LOCAL)
        other = await talk.regenerate(conversation_id, answer.turn_id, by=LOCAL)
        speaker.gate.set()
        done = await settled(raven, other)
        assert done.is_active
        assert done.sequence == 2
        await reach(raven, str(answer.active.run_id), "succeeded")
    both = (await talk.turn(conversation_id, answer.turn_id, by=LOCAL)).alternatives
    assert [(each.state, each.is_active) for each in both] == [("done", False), ("done", True)]
