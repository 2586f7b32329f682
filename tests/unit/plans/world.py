"""A run without an engine: a journal in memory, tools and a model that answer as a test says, and crashes on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinraven.catalog import Effect, ToolEntry
from twinraven.engine import CallFraming
from twinraven.engine.journal import CallOutcome
from twinraven.foundation.errors import TwinRavenError
from twinraven.models import ASK_MODEL
from twinraven.plans.kernel import Kernel, PlanRequest
from twinraven.plans.model import Plan
from twinraven.plans.state import Cycle

LOOK = ToolEntry(
    "look",
    "The price of an item.",
    {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"], "additionalProperties": False},
    effect=Effect.READ,
)
RESERVE = ToolEntry(
    "reserve",
    "Put an item aside.",
    {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
        "required": ["item", "count"],
        "additionalProperties": False,
    },
    effect=Effect.WRITE,
)

Answer = Callable[[dict[str, Any]], Any]
"""What the model says to a question: a text, or an error that is raised."""


class Cut(str):
    """What a model said before its limit of tokens cut it off."""

    __slots__ = ()


class Crash(BaseException):
    """The process is gone."""


class FakeRun:
    """A run as the kernel sees it."""

    tenant_id, run_id, user_id = "default", "r", None

    def __init__(self, say: Answer, *, tools: tuple[ToolEntry, ...] = (LOOK, RESERVE), broken: str = "") -> None:
        self.journal: dict[str, CallOutcome] = {}
        self.asked: list[str] = []
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.crash_at: int | None = None
        self._say = say
        self._tools = {tool.tool_id: tool for tool in tools}
        self._broken = broken
        self._clock = 0
        self._acts = 0

    def known(self, place: str) -> CallOutcome | None:
        return self.journal.get(place)

    async def call(
        self,
        place: str,
        tool_id: str,
        params: dict[str, Any],
        *,
        attempt: int = 1,
        framing: CallFraming | None = None,
        held: bool = False,
    ) -> CallOutcome:
        del framing, held
        where = place if attempt == 1 else f"{place}#{attempt}"
        if where in self.journal:
            return self.journal[where]
        self._maybe_crash()
        if tool_id == ASK_MODEL:
            self.asked.append(where)
        else:
            self.called.append((tool_id, params))
        self.journal[where] = self._outcome(tool_id, params)
        self._maybe_crash()
        return self.journal[where]

    def _outcome(self, tool_id: str, params: dict[str, Any]) -> CallOutcome:
        if tool_id == ASK_MODEL:
            said = self._say(params)
            if isinstance(said, TwinRavenError):
                return CallOutcome(tool_id, self.now(), error=said.as_record())
            usage = {"input_tokens": 3, "output_tokens": 2}
            stop = "length" if isinstance(said, Cut) else "end"
            return CallOutcome(tool_id, self.now(), {"text": str(said), "stop": stop, "model": "m", "usage": usage})
        if tool_id == self._broken:
            return CallOutcome(
                tool_id, self.now(), error={"code": "TOOL_FAILED", "message": "broken", "retryable": False}
            )
        return CallOutcome(tool_id, self.now(), {"did": tool_id, **params})

    async def pause(self, place: str, attempt: int, seconds: float) -> None:
        pass

    async def keep(self, place: str, value: Any) -> None:
        self._maybe_crash()
        self.journal.setdefault(place, CallOutcome("program", self.now(), value))

    def now(self) -> int:
        self._clock += 1_000_000
        return self._clock

    def tool(self, tool_id: str) -> ToolEntry | None:
        return self._tools.get(tool_id)

    def offered(self) -> list[ToolEntry]:
        return list(self._tools.values())

    def _maybe_crash(self) -> None:
        self._acts += 1
        if self._acts == self.crash_at:
            raise Crash

    @property
    def cycles(self) -> list[Cycle]:
        """The cycles that were kept."""
        given = self.journal.get("plan")
        plan = None if given is None else Plan.from_json(given.output)
        found: list[Cycle] = []
        while (known := self.journal.get(f"cycle:{len(found) + 1}")) is not None:
            found.append(Cycle.from_json(known.output, plan))
            plan = found[-1].plan
        return found


async def carry_out(run: FakeRun, **wish: Any) -> Any:
    """What a plan comes to: its output, or the error that ended it."""
    try:
        return await Kernel(run, PlanRequest(**wish), ()).run()  # pyright: ignore[reportArgumentType]
    except TwinRavenError as error:
        return error
