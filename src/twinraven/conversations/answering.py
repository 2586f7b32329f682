"""Lets processes answer: chooses the process, starts its run with the turn, and settles the answer with the run's end.

The alternative and its run are one commit, and so are the run's end and what the alternative came to. Between the two
the alternative is generating, whatever becomes of the processes that work on it; it ends once, with content or with an
error, because what it came to is one row that is added once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twinraven.conversations.building import Executor, NewAlternative
from twinraven.conversations.built_in import BUILT_IN, DEFAULT_PROCESS
from twinraven.conversations.chat_tools import MODEL_TOOLS
from twinraven.conversations.episodes import EpisodeWriter
from twinraven.conversations.errors import AnswerInvalid, ProcessUnsuitable
from twinraven.conversations.model import MOST_CONTENT, Conversation
from twinraven.conversations.sql import AnswerOutcome, ConversationStore
from twinraven.conversations.tokens import count_tokens
from twinraven.conversations.working_memory import WorkingMemory
from twinraven.engine import RunEnd, RunRequest, Runs
from twinraven.flow import FlowDefinition
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import NotFound, ToolUnavailable
from twinraven.foundation.ids import new_id
from twinraven.processes import Processes, ProcessVersion
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

RUN_PREFIX: Final = "turn-"

VARIABLES: Final[Mapping[str, str]] = {
    "prompt": "what is to be answered",
    "messages": "the working memory as a list of {role, content}",
    "context": "what is in the working memory besides the path, as one text",
    "conversation_id": "the conversation",
}
"""What the initial context of a process that answers may ask for."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A process that can answer, in the version and with the flow that a run of it would be."""

    version: ProcessVersion
    flow: FlowDefinition

    @property
    def process_id(self) -> str:
        return self.version.process.id


class ProcessAnswers:
    """Runs processes that answer turns, and settles each answer when its run ends."""

    def __init__(
        self,
        store: ConversationStore,
        processes: Processes,
        runs: Runs,
        episodes: EpisodeWriter,
        *,
        check_model: Callable[[], object],
        redact: Callable[[str, bytes], bytes],
        timeout_s: float,
        micros: Callable[[], int],
    ) -> None:
        """`check_model` raises what says how to configure a model, where there is none."""
        self._store = store
        self._processes = processes
        self._runs = runs
        self._episodes = episodes
        self._check_model = check_model
        self._redact = redact
        self._timeout_s = timeout_s
        self._micros = micros

    async def choose(self, process_id: str | None, *, by: Principal, version: int | None = None) -> Answerer:
        """Return the process that shall answer, or ProcessUnsuitable with what is wrong with it."""
        wanted = DEFAULT_PROCESS if process_id is None else process_id
        await self._provide(wanted, by.tenant_id)
        try:
            saved, flow = await self._processes.executable(by.tenant_id, wanted, version=version)
            self._runs.check_definition(flow, by=by)
        except (NotFound, ToolUnavailable) as error:
            raise ProcessUnsuitable(f"process_id: {error.message}", field="process_id", process_id=wanted) from None
        for name in saved.process.initial_context:
            if name not in VARIABLES:
                raise ProcessUnsuitable(
                    f"process_id: {wanted!r} asks for {name!r}, which a conversation does not have; "
                    f"it has {', '.join(VARIABLES)}",
                    field="process_id",
                    process_id=wanted,
                    variable=name,
                )
        if any(step.tool_id in MODEL_TOOLS for step in flow.steps):
            self._check_model()
        return Answerer(saved, flow)

    def prepare(self, answerer: Answerer) -> NewAlternative:
        """Return the alternative that a run of this process will make."""
        alternative_id = new_id()
        made = Executor(answerer.process_id, answerer.version.version, f"{RUN_PREFIX}{alternative_id}")
        return NewAlternative(made_by=made, alternative_id=alternative_id)

    def start(
        self, tx: Transaction, answerer: Answerer, new: NewAlternative, memory: WorkingMemory, *, by: Principal
    ) -> None:
        """Start the run of an alternative that was just added."""
        path = memory.of("path")
        values: dict[str, Any] = {
            "prompt": path[-1].text if path else "",
            "messages": memory.messages,
            "context": memory.context,
            "conversation_id": memory.material.conversation_id,
        }
        assert new.made_by is not None
        parameters = {name: values[name] for name in answerer.version.process.initial_context}
        wish = RunRequest(parameters, definition=answerer.flow, run_id=new.made_by.run_id, timeout_s=self._timeout_s)
        self._runs.start_in(tx, wish, by=by)

    def prefer(self, tx: Transaction, conversation: Conversation, process_id: str, *, by: Principal) -> None:
        """Let DEFAULT_PROCESS follow the choice; choosing the same again changes nothing."""
        if conversation.default_process != process_id:
            now = self._micros()
            self._store.change(
                tx,
                by.tenant_id,
                conversation.conversation_id,
                now=now,
                default_process=process_id,
                default_since=now,
            )

    def on_end(self, tx: Transaction, end: RunEnd) -> None:
        """Settle the answer of a run that ended; one that is settled stays as it is, whatever the run does later."""
        alternative_id = end.run_id.removeprefix(RUN_PREFIX)
        row = self._store.unsettled(tx, end.tenant_id, alternative_id)
        if row is None or row["run_id"] != end.run_id:
            return
        now = self._micros()
        came = self._came(end)
        self._store.change(tx, end.tenant_id, row["conversation_id"], now=now)
        self._store.settle(tx, end.tenant_id, row["conversation_id"], alternative_id, came, now=now)
        if came.content is not None:
            self._episodes.schedule(tx, end.tenant_id, row["conversation_id"])

    def _came(self, end: RunEnd) -> AnswerOutcome:
        if end.error is not None:
            return AnswerOutcome(None, end.error, 0)
        output = end.output
        text = output if isinstance(output, str) else canonical_json(output).decode()
        # Both stores refuse these two, and a model may well write them.
        text = text.encode("utf-8", "replace").decode().replace("\0", "")
        if not text.strip() or len(text) > MOST_CONTENT:
            said = "said nothing" if not text.strip() else f"said {len(text):,} characters"
            error = AnswerInvalid(f"the process {said}; an answer has 1 to {MOST_CONTENT:,} characters")
            return AnswerOutcome(None, error.as_record(), 0)
        return self.said(end.tenant_id, text)

    def said(self, tenant_id: str, text: str) -> AnswerOutcome:
        """Return a text as it is kept: without secrets, and with its tokens counted."""
        clean = clean_text(self._redact, tenant_id, text)
        return AnswerOutcome(clean, None, count_tokens(clean))

    async def _provide(self, process_id: str, tenant_id: str) -> None:
        """Save a built-in process where the tenant has none of its name yet."""
        built_in = BUILT_IN.get(process_id)
        if built_in is None:
            return
        try:
            await self._processes.get(tenant_id, process_id)
        except NotFound:
            await self._processes.save(built_in, by=Principal(tenant_id, "twinraven", "admin"))


def clean_text(redact: Callable[[str, bytes], bytes], tenant_id: str, text: str) -> str:
    """Return a text without the tenant's secrets."""
    import orjson

    raw = orjson.dumps(text)
    cleaned = redact(tenant_id, raw)
    return text if cleaned is raw else orjson.loads(cleaned)
