"""Runs rounds of learning in the background of a server, off its event loop.

A round is a thread with an event loop of its own, because learning computes for minutes at a time and a loop that
serves requests must not. A second thread says every few seconds that the round still runs. When the home closes, a
round ends at its next step of progress and is marked interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING

from twinraven.foundation.errors import Conflict, TwinRavenError
from twinraven.foundation.event_loop import run_to_end

if TYPE_CHECKING:
    from twinraven.huginn import Huginn, LearningRound, RoundStore

_logger = logging.getLogger(__name__)

END_WITHIN_S = 10.0


class _Interrupted(Exception):
    """The home closes while a round runs."""


class LearningRounds:
    """Starts rounds and tells how they are."""

    def __init__(self, store: RoundStore, make_huginn: Callable[[], Huginn]) -> None:
        self._store = store
        self._make_huginn = make_huginn
        self._closing = Event()
        self._threads: list[Thread] = []

    async def start(
        self, tenant_id: str, *, by: str, with_model: bool = True, list_writes: bool = False
    ) -> LearningRound:
        """Begin a round; Conflict where one of the tenant runs already."""
        if self._closing.is_set():
            raise Conflict("the server is closing; ask again when it is back")
        begun = await self._store.start(tenant_id, by=by)
        work = _Work(
            self._store,
            self._make_huginn,
            self._closing,
            tenant_id,
            begun,
            with_model=with_model,
            list_writes=list_writes,
        )
        thread = Thread(target=work.run, name=f"learning-{begun.round_id}", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()
        return begun

    async def round(self, tenant_id: str, round_id: str) -> LearningRound:
        """Return one round as it is now, or NotFound."""
        return await self._store.round(tenant_id, round_id)

    async def rounds(self, tenant_id: str, *, limit: int) -> list[LearningRound]:
        """Return the newest rounds."""
        return await self._store.rounds(tenant_id, limit=limit)

    def close(self) -> None:
        """Interrupt what runs, and wait a little for it."""
        self._closing.set()
        for thread in self._threads:
            thread.join(END_WITHIN_S)


class _Work:
    """One round, on a thread of its own."""

    def __init__(
        self,
        store: RoundStore,
        make_huginn: Callable[[], Huginn],
        closing: Event,
        tenant_id: str,
        begun: LearningRound,
        *,
        with_model: bool,
        list_writes: bool,
    ) -> None:
        self._store = store
        self._make_huginn = make_huginn
        self._closing = closing
        self._tenant_id = tenant_id
        self._begun = begun
        self._with_model = with_model
        self._list_writes = list_writes
        self._progress = begun.progress
        self._ended = Event()

    def run(self) -> None:
        """Learn, and state how it ended."""
        beside = Thread(target=self._be_seen, name=f"learning-seen-{self._begun.round_id}", daemon=True)
        beside.start()
        try:
            self._learn()
        except _Interrupted:
            self._finish("interrupted")
        except TwinRavenError as error:
            self._finish("failed", error=error.as_json())
        except Exception as error:
            # The edge of a thread: whoever asked for the round must hear that it is over, whatever happened.
            _logger.exception("a round of learning failed")
            fault = {"code": "INTERNAL", "message": f"a fault inside TwinRaven: {type(error).__name__}"}
            self._finish("failed", error={**fault, "retryable": False, "details": {}})
        finally:
            self._ended.set()
            beside.join()

    def _learn(self) -> None:
        from twinraven.huginn import round_outcome

        learning = self._make_huginn().learn(
            self._tenant_id,
            by=self._begun.started_by,
            progress=self._note,
            with_model=self._with_model,
            list_writes=self._list_writes,
        )
        self._finish("done", outcome=round_outcome(run_to_end(learning)))

    def _note(self, progress: str) -> None:
        if self._closing.is_set():
            raise _Interrupted
        self._progress = progress

    def _be_seen(self) -> None:
        from twinraven.huginn import SEEN_EVERY_S

        told = self._progress
        waited = 0.0
        while not self._ended.wait(0.2):
            waited += 0.2
            if self._progress == told and waited < SEEN_EVERY_S:
                continue
            told, waited = self._progress, 0.0
            try:
                run_to_end(self._store.seen(self._tenant_id, self._begun.round_id, told))
            except TwinRavenError as error:
                _logger.warning("a round of learning goes on, but could not say so: %s", error.message)

    def _finish(self, state: str, **facts: object) -> None:
        try:
            run_to_end(self._store.finish(self._tenant_id, self._begun.round_id, state, **facts))  # pyright: ignore[reportArgumentType]
        except TwinRavenError as error:
            _logger.warning("a round of learning ended as %s, but could not say so: %s", state, error.message)
