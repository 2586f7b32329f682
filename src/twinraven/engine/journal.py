"""Keeps the journal of a run: what came of each call, by its place, sealed under the tenant's key.

An effect's outcome is stored in the transaction that settles its key. What a read answered is stored before the next
intent, not before the next read, because nothing that happened depends on it until then: the claim's transaction
carries it. A crash repeats reads, which is what reads are for; those that cost money are stored at once.

An outcome counts as stored only when the transaction that held it has committed. A step that somebody else settled
first keeps their outcome.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from twinraven.engine.dispatch import Dispatcher, Lease
from twinraven.foundation.canonical import canonical_json, parse_json, plain_json, to_json_value
from twinraven.foundation.errors import error_from_json
from twinraven.foundation.redaction import Redact
from twinraven.storage import Row, Transaction

if TYPE_CHECKING:
    from twinraven.muninn import TransactionalEvent

_OUTPUT, _ERROR, _REMARKED = b"o", b"e", b"r"
STEP_COLUMNS = ("tenant_id", "run_id", "place", "tool_id", "epoch", "outcome", "error_code", "settled_at")
_INSERT = """
    INSERT INTO run_steps (tenant_id, run_id, place, tool_id, epoch, outcome, error_code, settled_at)
    VALUES (:tenant_id, :run_id, :place, :tool_id, :epoch, :outcome, :error_code, :settled_at) ON CONFLICT DO NOTHING"""


class Seals(Protocol):
    """Encrypts what is kept."""

    def seal(self, tenant_id: str, belongs_to: str, value: bytes) -> bytes: ...

    def open(self, tenant_id: str, belongs_to: str, sealed: bytes) -> bytes: ...


class CallOutcome(NamedTuple):
    """The outcome of one attempt of one call: its output, or its error as a record."""

    tool_id: str
    settled_at: int
    output: Any = None
    error: dict[str, Any] | None = None
    remarks: dict[str, Any] | None = None
    """What the call said of itself (its event, its cost, how sure it is), where the run is an attempt at a task."""

    def value(self) -> Any:
        """Return the output, or the error raised."""
        if self.error is not None:
            raise error_from_json(self.error)
        return self.output


class JournalKit(NamedTuple):
    """The dependencies of every journal of a process."""

    dispatcher: Dispatcher
    seals: Seals
    redact: Redact
    micros: Callable[[], int]


def exact_json(value: Any) -> bytes:
    """Return a value as JSON that reads back as it was; the canonical form would turn some floats into integers."""
    told = plain_json(value)
    if told is not None:
        return told
    plain = to_json_value(value)
    try:
        return orjson.dumps(plain)
    except TypeError:  # an integer beyond 64 bits, or half a surrogate pair
        return json.dumps(plain).encode()


def encode_outcome(output: Any, error: Mapping[str, Any] | None, remarks: Mapping[str, Any] | None = None) -> bytes:
    """Return an output or an error as bytes to seal; the kind stands before the JSON, so any depth of JSON fits."""
    told = _OUTPUT + exact_json(output) if error is None else _ERROR + exact_json(error)
    if remarks is None:
        return told
    apart = exact_json(remarks)
    return _REMARKED + len(apart).to_bytes(4, "big") + apart + told


def decode_outcome(raw: bytes) -> tuple[Any, dict[str, Any] | None]:
    """Return the output and the error that `encode_outcome` was given."""
    if raw[:1] == _REMARKED:
        raw = raw[5 + int.from_bytes(raw[1:5], "big") :]
    value = parse_json(raw[1:], field="outcome")
    return (value, None) if raw[:1] == _OUTPUT else (None, value)


def decode_remarks(raw: bytes) -> dict[str, Any] | None:
    """Return the remarks that `encode_outcome` was given."""
    if raw[:1] != _REMARKED:
        return None
    return parse_json(raw[5 : 5 + int.from_bytes(raw[1:5], "big")], field="remarks")


def step_place(run_id: str, place: str) -> str:
    """Return the binding of a sealed outcome."""
    return f"run:{run_id}:step:{place}"


def read_outcome(seals: Seals, tenant_id: str, run_id: str, row: Row) -> CallOutcome:
    """Read an outcome from its row."""
    raw = seals.open(tenant_id, step_place(run_id, row["place"]), row["outcome"])
    output, error = decode_outcome(raw)
    return CallOutcome(row["tool_id"], row["settled_at"], output, error, decode_remarks(raw))


class Journal:
    """The journal of one run, as its worker has it."""

    def __init__(self, kit: JournalKit, lease: Lease, outcomes: dict[str, CallOutcome]) -> None:
        self.lease = lease
        self._kit = kit
        self._outcomes = outcomes
        self._unstored: dict[str, CallOutcome] = {}
        self.is_lost = False
        """Whether another worker has the run by now."""

    def known(self, place: str) -> CallOutcome | None:
        return self._outcomes.get(place)

    def calls(self) -> tuple[dict[str, Any], ...]:
        """Return the known outcomes of calls, in the order in which they ended."""
        ended = sorted(self._outcomes.values(), key=lambda outcome: outcome.settled_at)
        return tuple({**each.remarks, "tool_name": each.tool_id} for each in ended if each.remarks is not None)

    def now(self) -> int:
        """Return the moment by the dispatcher's clock, which is one for all machines."""
        return self._kit.micros() + self.lease.ahead

    def note(self, place: str, outcome: CallOutcome) -> None:
        """Know an outcome that is stored with the next intent."""
        self._outcomes[place] = self._unstored[place] = outcome

    def hold(self, tx: Transaction) -> frozenset[str]:
        """Check the lease of the run, and store what is not stored yet; returns what that was."""
        self._kit.dispatcher.hold(tx, self.lease)
        return self.store(tx)

    def store(self, tx: Transaction, *, besides: frozenset[str] = frozenset()) -> frozenset[str]:
        """Store what is not stored yet; `besides` names what an earlier transaction has committed."""
        waiting = {place: outcome for place, outcome in self._unstored.items() if place not in besides}
        if waiting:
            tx.insert_missing("run_steps", STEP_COLUMNS, [self._row(each, waiting[each]) for each in waiting])
        return frozenset(waiting)

    def unstored(self) -> list[tuple[Any, ...]]:
        """Return the rows that are not stored yet, to be stored with those of other runs."""
        return [self._row(place, outcome) for place, outcome in self._unstored.items()]

    def stored(self, places: frozenset[str]) -> None:
        """Forget that these are not stored: the transaction that held them has committed."""
        for place in places:
            self._unstored.pop(place, None)

    def settle(self, tx: Transaction, place: str, outcome: CallOutcome) -> CallOutcome:
        """Store an outcome, or return the one stored first; wakes the worker that has the run, if another."""
        row = dict(zip(STEP_COLUMNS, self._row(place, outcome), strict=True))
        if tx.execute(_INSERT, **row):
            return outcome
        return self.look_up(tx, place) or outcome

    def look_up(self, tx: Transaction, place: str) -> CallOutcome | None:
        """Return the stored outcome of a place."""
        lease = self.lease
        row = tx.fetch_one(
            "SELECT place, tool_id, outcome, settled_at FROM run_steps "
            "WHERE tenant_id = :tenant AND run_id = :run AND place = :place",
            tenant=lease.tenant_id,
            run=lease.run_id,
            place=place,
        )
        return None if row is None else read_outcome(self._kit.seals, lease.tenant_id, lease.run_id, row)

    def end_job(self, tx: Transaction) -> None:
        """End the step that this lease is for: its run goes on."""
        lease, dispatcher = self.lease, self._kit.dispatcher
        tx.execute(
            "UPDATE run_waits SET answered_at = :now "
            "WHERE tenant_id = :tenant AND run_id = :run AND place = :place AND answered_at IS NULL",
            now=self.now(),
            **lease.row,
        )
        dispatcher.drop(tx, lease.tenant_id, lease.run_id, place=lease.place)
        dispatcher.wake(tx, lease.tenant_id, lease.run_id)

    def adopt(self, place: str, outcome: CallOutcome) -> None:
        """Know an outcome that is stored already."""
        self._outcomes[place] = outcome

    def _row(self, place: str, outcome: CallOutcome) -> tuple[Any, ...]:
        lease, error = self.lease, outcome.error
        raw = encode_outcome(outcome.output, error, outcome.remarks)
        return (
            lease.tenant_id,
            lease.run_id,
            place,
            outcome.tool_id,
            lease.epoch,
            self._kit.seals.seal(lease.tenant_id, step_place(lease.run_id, place), raw),
            None if error is None else error.get("code"),
            outcome.settled_at,
        )

    def clean(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of an error without the tenant's secrets, since it will be shown; may ask the store."""
        return parse_json(self._kit.redact(self.lease.tenant_id, canonical_json(to_json_value(record))), field="error")


class JournaledStep:
    """The step that a call is: its journal, in the transactions that claim and settle the call's key."""

    def __init__(
        self,
        journal: Journal,
        kit: JournalKit,
        place: str,
        tool_id: str,
        *,
        is_remarked: bool = False,
        is_costly: bool = False,
    ) -> None:
        self._journal = journal
        self.is_remarked = is_remarked
        self.is_costly = is_costly
        self._kit = kit
        self._place = place
        self._tool_id = tool_id
        self._begun: frozenset[str] = frozenset()
        self._settled: frozenset[str] = frozenset()
        self.outcome: CallOutcome | None = None
        """What the settlement stored, once its transaction ran."""
        self.event: TransactionalEvent | None = None
        """The event of a call that is stored at once, for the transaction that stores it."""

    def begin(self, tx: Transaction) -> None:
        """Check the lease of the run, and store what the intent builds on."""
        self._begun = self._journal.hold(tx)

    def settle(self, tx: Transaction, outcome: dict[str, Any]) -> None:
        """Store the outcome, whichever worker has the run by now; if another, wake it."""
        journal, lease, error = self._journal, self._journal.lease, outcome.get("error")
        told = CallOutcome(
            self._tool_id,
            journal.now(),
            outcome.get("output"),
            error and journal.clean(error),
            outcome.get("remarks") if self.is_remarked else None,
        )
        self.outcome = journal.settle(tx, self._place, told)
        if not self._kit.dispatcher.holds(tx, lease):
            # Reads of a worker that lost the run are not told: whoever has it may have read something else.
            self._kit.dispatcher.wake(tx, lease.tenant_id, lease.run_id)
            return
        self._settled = journal.store(tx, besides=self._begun)
        if lease.place:
            journal.end_job(tx)

    def carry(self, event: TransactionalEvent) -> bool:
        """Take the event of a read that costs money, whose outcome is stored at once anyway."""
        if self.is_costly:
            self.event = event
        return self.is_costly

    def finish(self) -> None:
        """Note that the call came back, so its transactions have committed."""
        self._journal.stored(self._begun | self._settled)
        if self.outcome is not None:
            self._journal.adopt(self._place, self.outcome)
