"""Homes with conversations, and processes that answer without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.homes import make_home
from tests.postgres import PostgresLogin
from tests.working import FAST
from twinraven.app import TwinRaven, open_home
from twinraven.catalog import tool
from twinraven.conversations import Alternative, ConversationTurn
from twinraven.conversations.sql import ConversationStore
from twinraven.foundation.errors import ToolError
from twinraven.processes import Process
from twinraven.tenancy import LOCAL, Principal

BOB = Principal("default", "bob", "member")


@dataclass
class Speaker:
    """Answers prompts, one after another, and remembers what it was shown."""

    shown: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    gate: asyncio.Event | None = None
    failures: int = 0

    @tool(effect="read")
    async def speak(self, prompt: str, messages: list[dict[str, Any]]) -> str:
        """Answer a prompt."""
        self.shown.append(messages)
        if self.gate is not None:
            await self.gate.wait()
        if self.failures > 0:
            self.failures -= 1
            raise ToolError("lost for words")
        return f"answer {len(self.shown)} to {prompt}"


def talking_process(process_id: str, template: str = "{{text}}", **more: Any) -> Process:
    """A process that lets the speaker answer."""
    body: dict[str, Any] = {
        "id": process_id,
        "description": "Answers",
        "initialContext": ["prompt", "messages"],
        "steps": [
            {
                "id": "speak",
                "tool": "speak",
                "inputs": {"prompt": "{step.prompt}", "messages": "{step.messages}"},
                "output": {"variable": "text"},
            }
        ],
        "outputTemplate": template,
    }
    return Process.from_json(body | more)


@contextmanager
def talking_home(
    folder: Path, speaker: Speaker, *, postgres: PostgresLogin | None = None, **more: Any
) -> Generator[TwinRaven]:
    """An opened home with a speaker and quick workers."""
    home = make_home(folder, postgres=postgres, **({"engine": FAST, "knowledge": {"embedder": "off"}} | more))
    with open_home(home, functions=[speaker.speak]) as raven:
        yield raven


async def settled(raven: TwinRaven, turn: ConversationTurn, by: Principal = LOCAL) -> Alternative:
    """The active alternative of a turn, once it has ended."""
    async with asyncio.timeout(180):
        while True:
            found = (await raven.conversations.turn(turn.conversation_id, turn.turn_id, by=by)).active
            if found.settled_at is not None:
                return found
            await asyncio.sleep(0.02)


async def bound(raven: TwinRaven, conversation_id: str, by: Principal = LOCAL) -> list[Alternative]:
    """All alternatives of a conversation, once each that says something has its episode and no run writes any more.

    Where one has none, such a run is under way: it is started with what was said.
    """
    async with asyncio.timeout(180):
        while True:
            found = await _told(raven, conversation_id, by)
            waiting = _without_episode(found)
            run = await raven.database.read(
                by.tenant_id, lambda tx: ConversationStore().ingestion(tx, by.tenant_id, conversation_id)
            )
            if run is None and not waiting:
                return found
            if run is None:
                left = waiting & _without_episode(await _told(raven, conversation_id, by))
                assert not left, "nobody writes an episode of what was said"
            await asyncio.sleep(0.02)


async def _told(raven: TwinRaven, conversation_id: str, by: Principal) -> list[Alternative]:
    turns = await raven.conversations.turns(conversation_id, by=by, limit=1000)
    return [each for turn in turns if turn.turn_type != "summary" for each in turn.alternatives]


def _without_episode(found: list[Alternative]) -> set[str]:
    return {each.alternative_id for each in found if each.content is not None and each.episode_id is None}
