"""The scripted model answers in the form that clients of a real provider take."""

from __future__ import annotations

import json
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from twinraven.models import ScriptedModel, read_script


async def answered(app: ScriptedModel, **question: Any) -> bytes:
    """What the application sends for a question."""
    body = json.dumps({"messages": [{"role": "user", "content": "Which birds?"}], **question}).encode()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [],
        "query_string": b"",
    }
    await app(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent)


async def test_clients_of_openai_take_every_answer() -> None:
    """Whole or in pieces, with text or a wanted tool, an answer has all that the published types require."""
    answers: list[Any] = ["Huginn and Muninn.", {"tool_calls": [{"name": "look", "arguments": {"item": "lamp"}}]}]
    for answer in answers:
        app = ScriptedModel(read_script([answer]))
        whole = ChatCompletion.model_validate_json(await answered(app), strict=True)
        assert whole.id
        lines = (await answered(app, stream=True)).decode().split("\n\n")
        pieces = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
        chunks = [ChatCompletionChunk.model_validate_json(piece, strict=True) for piece in pieces]
        assert {chunk.id for chunk in chunks} == {whole.id}
