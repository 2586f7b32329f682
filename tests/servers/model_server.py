"""A server that speaks both dialects of models, without a model: it says what a test tells it to.

It checks requests as strictly as the originals do where that matters (the key, the version header, required members),
so that a client which satisfies it would satisfy them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.servers.http_server import Received, Reply

KEY = "sk-test-0123456789"

Say = Callable[[dict[str, Any]], Any]
"""What the model says to a request body: text, an object for structured answers, or a Reply as it is."""


class ModelServer:
    """The handler of a server; `say` may be replaced while it runs."""

    def __init__(self, say: Say, *, stop: str | None = None) -> None:
        self.say = say
        self.stop = stop

    def __call__(self, request: Received) -> Reply:
        if request.target.endswith("/models"):
            return Reply(200, {"data": [{"id": "small"}]}) if _has_key(request) else _refusal(401, "no such key")
        if not _has_key(request):
            return _refusal(401, f"Incorrect API key provided: {request.headers.get('authorization', '')}")
        body = request.json
        if "model" not in body or not body.get("messages"):
            return _refusal(400, "model and messages are required")
        said = self.say(body)
        if isinstance(said, Reply):
            return said
        if request.target == "/v1/chat/completions":
            return Reply(200, self._completion(said))
        if request.target == "/v1/messages":
            if request.headers.get("anthropic-version") != "2023-06-01" or "max_tokens" not in body:
                return _refusal(400, "anthropic-version and max_tokens are required")
            return Reply(200, self._message(said))
        return _refusal(404, "no such resource")

    def _completion(self, said: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": said, "refusal": None}
        return {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": self.stop or "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }

    def _message(self, said: Any) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "text", "text": said}
        if isinstance(said, dict):
            block = {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": said}
        return {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, block],
            "stop_reason": self.stop or ("tool_use" if isinstance(said, dict) else "end_turn"),
            "usage": {"input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": 20},
        }


def _has_key(request: Received) -> bool:
    return KEY in (request.headers.get("authorization", "").removeprefix("Bearer "), request.headers.get("x-api-key"))


def _refusal(status: int, message: str) -> Reply:
    return Reply(status, {"error": {"type": "invalid_request_error", "message": message}})
