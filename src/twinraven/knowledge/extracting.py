"""Lets spaCy and the configured model extract entities and facts from stored turns, in runs of the engine.

One run at a time reads a group, a few turns at a time, and writes what it found with how far it came in one
transaction: after a crash it goes on where it stopped, and nothing is stored twice. Rules have read every turn before,
in the transaction that stored it. What is installed or configured later reads from then on, unless a group is read
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import InvalidInput, InvalidOutput, NotFound, ToolError
from twinraven.knowledge.entities.extractor import Extraction, Extractor
from twinraven.knowledge.entities.mentions import store_found
from twinraven.knowledge.group_progress_sql import GroupProgress, ReaderRunEnd
from twinraven.knowledge.ingestion import StoredPart
from twinraven.knowledge.sql import group_state, parts_from
from twinraven.storage import Database, Row, Transaction

EXTRACT_WORK: Final = "house:extraction"
EXTRACT_RUN: Final = "extract-"
_PROGRESS: Final = "extraction_progress"
_NAMES: Final = ("spacy", "model")
_LEFT_OUT: Final = "summary"
"""Sources that extraction skips: summaries repeat the turns."""
_MOST_STRIKES: Final = 3
"""Turns that were refused so often are left to the rules: one of them must not keep all that follow from being read."""
_MOST_CHARACTERS: Final = 16_000

StartExtraction = Callable[[Transaction, str, str, str, str], None]
"""Starts a run that extracts: tenant, group, name of the extractor, run id."""

OnMentions = Callable[[Transaction, str, Sequence[str]], None]
"""Told, in their transaction, which entities were found in turns."""


@dataclass(frozen=True, slots=True)
class _Reader:
    extractor: Extractor
    progress: GroupProgress


class BackgroundExtraction:
    """Runs the extractors besides the rules in the background, with a cursor per group."""

    def __init__(
        self,
        database: Database,
        extractors: Sequence[Extractor],
        start: StartExtraction,
        *,
        on_mentions: OnMentions = lambda _tx, _tenant_id, _touched: None,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self._database = database
        self._on_mentions = on_mentions
        self._micros = micros
        self._progress = {name: _progress(name, start) for name in _NAMES}
        self._readers = {each.name: _Reader(each, self._progress[each.name]) for each in extractors}

    @property
    def names(self) -> tuple[str, ...]:
        """The extractors that there are."""
        return tuple(self._readers)

    def on_stored(self, tx: Transaction, tenant_id: str, group_id: str, first: int) -> None:
        """Start the runs that read what a group has new, from the part `first` on where nothing was read before."""
        for reader in self._readers.values():
            reader.progress.on_stored(tx, tenant_id, group_id, first=first)

    async def read_anew(self, tenant_id: str, group_id: str, *, by: str | None = None) -> tuple[str, ...]:
        """Read a whole group once more, by one extractor or by all; says by which. Rules need not: they always have."""
        if not self._readers or (by is not None and by not in self._readers):
            raise InvalidInput(
                f"there is no extractor {by!r}" if by else "only rules extract here, and they have read every turn",
                field="by" if by else "knowledge.extraction",
                fix=f"name one of: {', '.join(self.names)}"
                if self.names
                else "install a spaCy pipeline or configure a model, and leave knowledge.extraction at auto",
            )
        chosen = self.names if by is None else (by,)

        def work(tx: Transaction) -> None:
            if group_state(tx, tenant_id, group_id) is None:
                raise NotFound(f"there is no group {group_id!r}", field="group_id")
            for name in chosen:
                progress = self._readers[name].progress
                progress.on_stored(tx, tenant_id, group_id, first=0)
                progress.save(tx, tenant_id, group_id, next_seq=0, strikes=0)

        await self._database.write(tenant_id, work)
        return chosen

    async def read_group(self, tenant_id: str, group_id: str, name: str) -> dict[str, Any]:
        """Read what an extractor has not read of a group; says how many turns it read and how many it could not."""
        reader = self._readers.get(name)
        if reader is None:
            raise NotFound(f"the extractor {name!r} is not there any more", field="extractor")
        read = unread = 0
        while True:
            row, turns, end = await self._database.read(
                tenant_id, lambda tx: self._next(tx, tenant_id, group_id, reader)
            )
            if row is None or end == row["next_seq"]:
                return {"group_id": group_id, "extractor": name, "turns": read, "unread": unread}
            found = await self._extract(tenant_id, group_id, reader, turns, row)
            read, unread = (read, unread + len(turns)) if found is None else (read + len(turns), unread)
            pairs = () if found is None else tuple(zip(turns, found, strict=True))
            await self._store(tenant_id, group_id, reader, pairs, begin=row["next_seq"], end=end)

    def on_end(self, tx: Transaction, end: ReaderRunEnd) -> None:
        """Let the next run of an extractor begin; of one that is not there any more, the next when it is back."""
        for name, progress in self._progress.items():
            progress.on_end(tx, end, has_more=partial(self._has_more, name))

    def _has_more(self, name: str, tx: Transaction, tenant_id: str, group_id: str) -> bool:
        if name not in self._readers:
            return False
        row, _, end = self._next(tx, tenant_id, group_id, self._readers[name])
        return row is not None and end != row["next_seq"]

    def _next(
        self, tx: Transaction, tenant_id: str, group_id: str, reader: _Reader
    ) -> tuple[Row | None, list[StoredPart], int]:
        """Return how far a group was read, the turns that follow, and where they end."""
        row = reader.progress.row(tx, tenant_id, group_id)
        if row is None:
            return None, [], 0
        turns: list[StoredPart] = []
        end, characters = row["next_seq"], 0
        for each in parts_from(tx, tenant_id, group_id, row["next_seq"], limit=reader.extractor.most_turns):
            characters += len(each["content"])
            if turns and characters > _MOST_CHARACTERS:
                break
            end = each["seq"] + 1
            if each["source"] != _LEFT_OUT and each["content"].strip():
                turns.append(StoredPart(each["seq"], each["content"], each["speaker"], each["valid_at"]))
        return row, turns, end

    async def _extract(
        self, tenant_id: str, group_id: str, reader: _Reader, turns: Sequence[StoredPart], row: Row
    ) -> Sequence[Extraction] | None:
        """Return what was found; None where these turns cannot be read. Raises where trying again later may help."""
        try:
            return await reader.extractor.extract(tenant_id, turns) if turns else ()
        except InvalidOutput:
            return None
        except ToolError as error:
            if error.retryable or error.code != ToolError.code:
                raise
            strikes = row["strikes"] + 1
            if strikes >= _MOST_STRIKES:
                return None
            await self._database.write(
                tenant_id, lambda tx: reader.progress.save(tx, tenant_id, group_id, strikes=strikes)
            )
            raise

    async def _store(
        self,
        tenant_id: str,
        group_id: str,
        reader: _Reader,
        read: Sequence[tuple[StoredPart, Extraction]],
        *,
        begin: int,
        end: int,
    ) -> None:
        at = self._micros()

        def work(tx: Transaction) -> None:
            group_state(tx, tenant_id, group_id, lock=True)
            row = reader.progress.row(tx, tenant_id, group_id)
            if row is None or row["next_seq"] != begin:
                return  # Somebody else has read these turns, or the group is to be read anew.
            touched = store_found(tx, tenant_id, group_id, read, by=reader.extractor.name, at=at)
            self._on_mentions(tx, tenant_id, touched)
            reader.progress.save(tx, tenant_id, group_id, next_seq=end, strikes=0)

        await self._database.write(tenant_id, work)


def _progress(name: str, start: StartExtraction) -> GroupProgress:
    return GroupProgress(
        _PROGRESS,
        prefix=f"{EXTRACT_RUN}{name}-",
        start=lambda tx, tenant_id, group_id, run_id: start(tx, tenant_id, group_id, name, run_id),
        key={"extractor": name},
    )
