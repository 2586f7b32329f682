"""Implements the use cases of introspection: notes by hand, and the reflective agent in the background.

After so many compressions of a conversation the agent is started: one row and one run of the process that reflects. It
is given the notes, the compressions and the position that will be replaced; what it writes is applied with the end of
its run. A note that is replaced or deleted is archived and stays searchable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

from twinraven.engine import RunEnd, RunRequest, Runs
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.knowledge.introspection.model import (
    DEFAULT_ROTATION,
    DEFAULT_THRESHOLD,
    INTROSPECTION_SOURCE,
    Introspection,
    Reflection,
    check_note,
    check_position,
    next_position,
)
from twinraven.knowledge.introspection.sql import (
    archive_note,
    bind_note,
    end_reflection,
    find_note,
    find_reflection,
    insert_note,
    insert_reflection,
    last_reflected,
    list_notes,
    list_reflections,
    next_number,
)
from twinraven.knowledge.model import NewEpisode
from twinraven.knowledge.privacy import note_group
from twinraven.knowledge.service import Knowledge
from twinraven.knowledge.sql import open_group
from twinraven.knowledge.summaries import Compression, done_since, find_summary
from twinraven.knowledge.thinking import PreparedProcess, ThinkingProcesses, member_of
from twinraven.muninn import check_name
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

REFLECT_PROCESS: Final = "reflect_memory"
REFLECT_WORK: Final = "house:reflection"
RUN_PREFIX: Final = "reflect-"
BY_REFLECTION: Final = "reflection"
_MOST_COMPRESSIONS: Final = 20
_FORM: Final = "the process that reflects must end with a text, or {notes: [{position, content}]}"


class NewNote(NamedTuple):
    """A note to be placed; without a position it goes where the next one goes."""

    user_id: str
    content: str
    position: int | None
    context: str | None
    made_by: str


class CarouselRules(NamedTuple):
    """The size of a carousel, and after how many compressions the agent reflects."""

    rotation: int = DEFAULT_ROTATION
    threshold: int = DEFAULT_THRESHOLD
    process_id: str = REFLECT_PROCESS


class Introspections:
    """The carousels of all users."""

    def __init__(
        self,
        database: Database,
        knowledge: Knowledge,
        *,
        processes: ThinkingProcesses,
        runs: Callable[[], Runs],
        rules: CarouselRules = CarouselRules(),  # noqa: B008 (a tuple, which never changes)
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._database = database
        self._knowledge = knowledge
        self._processes = processes
        self._runs = runs
        self._rules = rules
        self._micros = micros

    async def notes(
        self, tenant_id: str, user_id: str, *, with_archived: bool = False, limit: int = 1_000, after: int = -1
    ) -> list[Introspection]:
        """Return a user's current notes by their place, or all in the order in which they were made."""
        return await self._database.read(
            tenant_id,
            lambda tx: list_notes(tx, tenant_id, user_id, with_archived=with_archived, limit=limit, after=after),
        )

    async def note(self, tenant_id: str, introspection_id: str, *, user_id: str | None = None) -> Introspection:
        """Return one note, also an archived one; for `user_id` those of others are not there."""
        return await self._database.read(tenant_id, lambda tx: self._present(tx, tenant_id, introspection_id, user_id))

    async def add(
        self,
        user_id: str,
        content: str,
        *,
        by: Principal,
        position: int | None = None,
        conversation_context: str | None = None,
    ) -> Introspection:
        """Add a note by hand: at a position, or where the next one goes; what stood there is archived."""
        check_name(user_id, field="user_id", limit=300)
        check_note(content)
        if position is not None:
            check_position(position, self._rules.rotation)
        if conversation_context is not None:
            check_name(conversation_context, field="conversation_context", limit=300)
        made = await self._database.write(
            by.tenant_id,
            lambda tx: self._place(
                tx, by.tenant_id, NewNote(user_id, content, position, conversation_context, by.user_id)
            ),
        )
        return await self.note(by.tenant_id, made)

    async def correct(self, introspection_id: str, content: str, *, by: Principal) -> Introspection:
        """Bind a corrected content to a note; the one before stays."""
        check_note(content)
        at = self._micros()

        def work(tx: Transaction) -> None:
            found = self._present(tx, by.tenant_id, introspection_id, None)
            self._bind(tx, by.tenant_id, found.user_id, introspection_id, content, by=by.user_id, at=at)

        await self._database.write(by.tenant_id, work)
        return await self.note(by.tenant_id, introspection_id)

    async def delete(self, introspection_id: str, *, by: Principal) -> Introspection:
        """Take a note out of its carousel; it is archived, and its place is the next to be filled."""

        def work(tx: Transaction) -> None:
            self._present(tx, by.tenant_id, introspection_id, None)
            if not archive_note(tx, by.tenant_id, introspection_id, "deleted", at=self._micros()):
                raise Conflict(f"note {introspection_id} is archived already", field="introspection_id")

        await self._database.write(by.tenant_id, work)
        return await self.note(by.tenant_id, introspection_id)

    async def reflections(self, tenant_id: str, user_id: str, *, limit: int = 50) -> Sequence[Reflection]:
        """Return the reflections of the agent for a user, the newest first."""
        return await self._database.read(tenant_id, lambda tx: list_reflections(tx, tenant_id, user_id, limit=limit))

    def on_compressed(self, tx: Transaction, tenant_id: str, compression: Compression, user_id: str) -> None:
        """Count a compression; at the threshold the agent is started, with this transaction."""
        last = last_reflected(tx, tenant_id, compression.group_id)
        done = done_since(tx, tenant_id, compression.group_id, last, self._rules.threshold)
        if len(done) >= self._rules.threshold:
            subject = {"group_id": compression.group_id, "user_id": user_id}
            run_id = f"{RUN_PREFIX}begin-{compression.compression_id}"
            self._runs().start_house_work_in(tx, tenant_id, REFLECT_WORK, subject, run_id=run_id)

    async def reflect(self, tenant_id: str, user_id: str, group_id: str) -> Reflection | None:
        """Start the reflective agent on the compressions of a group that it has not seen; None where there are none."""
        prepared = await self._processes.prepare(tenant_id, self._rules.process_id)

        def work(tx: Transaction) -> str | None:
            open_group(tx, tenant_id, group_id, at=self._micros())  # one reflection after the other
            done = done_since(tx, tenant_id, group_id, last_reflected(tx, tenant_id, group_id), _MOST_COMPRESSIONS)
            if not done:
                return None
            return self._begin(tx, Principal(tenant_id, user_id, "member"), group_id, done, prepared)

        begun = await self._database.write(tenant_id, work)
        self._runs().announce()
        if begun is None:
            return None
        return await self._database.read(tenant_id, lambda tx: find_reflection(tx, tenant_id, begun))

    def on_end(self, tx: Transaction, end: RunEnd) -> None:
        """Apply what a reflection wrote, or say why it wrote nothing."""
        if not end.run_id.startswith(RUN_PREFIX):
            return
        found = find_reflection(tx, end.tenant_id, end.run_id.removeprefix(RUN_PREFIX))
        if found is None or found.state != "running":
            return
        state, problem = "done", None
        try:
            for position, content in _written(end, found.replaces, self._rules.rotation):
                note = NewNote(found.user_id, content, position, found.context, BY_REFLECTION)
                self._place(tx, end.tenant_id, note)
        except TwinRavenError as error:
            state, problem = "failed", error.message
        end_reflection(tx, end.tenant_id, found.reflection_id, state, error=problem, at=self._micros())

    def _begin(
        self,
        tx: Transaction,
        owner: Principal,
        group_id: str,
        done: Sequence[dict[str, Any]],
        prepared: PreparedProcess,
    ) -> str:
        tenant_id, user_id = owner.tenant_id, owner.user_id
        notes = list_notes(tx, tenant_id, user_id)
        replaces = next_position(notes, self._rules.rotation)
        reflection_id = new_id()
        values: dict[str, Any] = {
            "reflection_id": reflection_id,
            "user_id": user_id,
            "group_id": group_id,
            "first_compression": done[-1]["number"],
            "last_compression": done[0]["number"],
            "replaces": replaces,
            "created_at": self._micros(),
        }
        insert_reflection(tx, tenant_id, values)
        summaries = [(row["number"], find_summary(tx, tenant_id, row["summary_id"])) for row in reversed(done)]
        parameters = {
            "warning": f"Position {replaces} will be replaced; preserve what is vital in it.",
            "replaces": replaces,
            "positions": self._rules.rotation,
            "notes": [{"position": note.position, "content": note.content} for note in notes],
            "compressions": [
                {"number": number, "level": each.level, "content": each.content}
                for number, each in summaries
                if each is not None
            ],
            "conversation_id": group_id,
            "user_id": user_id,
        }
        wish = RunRequest(prepared.inputs(parameters), definition=prepared.flow, run_id=f"{RUN_PREFIX}{reflection_id}")
        self._runs().start_in(tx, wish, by=owner)
        return reflection_id

    def _place(self, tx: Transaction, tenant_id: str, new: NewNote) -> str:
        at = self._micros()
        open_group(tx, tenant_id, note_group(new.user_id), at=at)  # one note of a user after the other
        current = list_notes(tx, tenant_id, new.user_id)
        place = next_position(current, self._rules.rotation) if new.position is None else new.position
        for note in current:
            if note.position == place:
                archive_note(tx, tenant_id, note.introspection_id, "replaced", at=at)
        introspection_id = new_id()
        values = {
            "introspection_id": introspection_id,
            "user_id": new.user_id,
            "position": place,
            "number": next_number(tx, tenant_id, new.user_id),
            "conversation_context": new.context,
            "made_by": new.made_by,
            "created_at": at,
        }
        insert_note(tx, tenant_id, values)
        self._bind(tx, tenant_id, new.user_id, introspection_id, new.content, by=new.made_by, at=at)
        return introspection_id

    def _bind(
        self, tx: Transaction, tenant_id: str, user_id: str, introspection_id: str, content: str, *, by: str, at: int
    ) -> None:
        name = f"Introspection:{introspection_id}/{new_id()[:8]}"
        episode = NewEpisode(note_group(user_id), name, content, source=INTROSPECTION_SOURCE)
        bind_note(
            tx, tenant_id, introspection_id, self._knowledge.store_in(tx, tenant_id, episode, at=at), by=by, at=at
        )

    def _present(self, tx: Transaction, tenant_id: str, introspection_id: str, user_id: str | None) -> Introspection:
        found = find_note(tx, tenant_id, introspection_id)
        if found is None or (user_id is not None and found.user_id != user_id):
            raise NotFound(f"no note {introspection_id!r}", field="introspection_id")
        return found


def _written(end: RunEnd, replaces: int, rotation: int) -> list[tuple[int, str]]:
    """Return what a reflection wrote: {notes: [{position, content}]}, or a text for the position that is replaced."""
    if end.state != "succeeded":
        raise InvalidInput(str((end.error or {}).get("message") or f"the run {end.state}"), field="run")
    if isinstance(end.output, str):
        return [(replaces, check_note(end.output))]
    listed = member_of(end.output, "notes")
    if not isinstance(listed, list):
        raise InvalidInput(_FORM, field="output")
    return [_read_note(each, rotation) for each in cast("list[Any]", listed)]


def _read_note(written: Any, rotation: int) -> tuple[int, str]:
    if not isinstance(written, dict):
        raise InvalidInput(_FORM, field="output")
    note = cast("dict[str, Any]", written)
    position, content = note.get("position"), note.get("content")
    if not isinstance(position, int) or not isinstance(content, str):
        raise InvalidInput(_FORM, field="output")
    return check_position(position, rotation), check_note(content)
