"""An MCP server, on the standard library alone, that uses everything a client may be asked for during a call.

    python talker.py [--revision 2025-11-25 | 2026-07-28] [--slow SECONDS] [--silent]

Of the newest revision it asks by way of answers (`input_required`), of an older one by requests on its connection. It
answers nothing for so many seconds after its start. A silent one drops requests that it does not know.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

NEWEST = "2026-07-28"
INSTRUCTIONS = "Ask before you leap."
META = "io.modelcontextprotocol/"
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "sample": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Why?"}}], "maxTokens": 9},
    ),
    "elicit": (
        "elicitation/create",
        {
            "mode": "form",
            "message": "Who are you?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    ),
    "roots": ("roots/list", {}),
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "count": {"n": {"type": "integer"}, "pause": {"type": "number"}},
    "typed": {
        "n": {"type": "integer"},
        "x": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "flag": {"type": "boolean"},
        "text": {"type": "string"},
        "odd": {"type": ["integer", "string"]},
    },
}
said: dict[str, Any] = {}


class Talker:
    """The server, one message after the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.is_newest = options.revision == NEWEST
        self.asked = 0

    def run(self) -> None:
        time.sleep(self.options.slow)
        for line in sys.stdin:
            self.hear(json.loads(line))

    def hear(self, message: dict[str, Any]) -> None:
        if "method" not in message or "id" not in message:
            said.setdefault("heard", []).append(message.get("method"))
            return
        method, params = message["method"], message.get("params", {})
        serve = getattr(self, method.replace("/", "_"), None)
        if serve is not None:
            self.send({"id": message["id"], **serve(params)})
        elif not self.options.silent:
            self.send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})

    def server_discover(self, params: dict[str, Any]) -> dict[str, Any]:
        del params
        if not self.is_newest:
            return {"error": {"code": -32601, "message": "Method not found"}}
        said["is_discovered"] = True
        return self.result({"supportedVersions": [NEWEST], "capabilities": {"tools": {}}, "instructions": INSTRUCTIONS})

    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.is_newest:
            return {"error": {"code": -32600, "message": "this server has no handshake"}}
        said["capabilities"] = params["capabilities"]
        return {
            "result": {
                "protocolVersion": self.options.revision,
                "capabilities": {"tools": {}, "logging": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
                "serverInfo": {"name": "talker", "version": "1"},
                "instructions": INSTRUCTIONS,
            }
        }

    def logging_setLevel(self, params: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - the name of the method
        said["level"] = params["level"]
        return {"result": {}}

    def tools_list(self, params: dict[str, Any]) -> dict[str, Any]:
        del params
        names = ("count", "log", "sample", "elicit", "roots", "named", "typed", "kinds", "about")
        tools: list[dict[str, Any]] = [
            {"name": name, "inputSchema": {"type": "object", "properties": SCHEMAS.get(name, {})}} for name in names
        ]
        if not self.is_newest:
            execution = {"taskSupport": "required"}
            tools.append({"name": "research", "inputSchema": {"type": "object"}, "execution": execution})
        return self.result({"tools": tools})

    def tools_call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, meta = params["name"], params.get("_meta", {})
        if name in QUESTIONS:
            return self.question(name, params)
        if name == "research":
            return self.research(params)
        arguments = params.get("arguments", {})
        if name == "count":
            return self.count(arguments, meta.get("progressToken"))
        if name == "log":
            for level in ("debug", "info", "error"):
                wanted = meta.get(META + "logLevel") if self.is_newest else "debug"
                if wanted is not None:
                    self.notify("notifications/message", {"level": level, "logger": "talker", "data": {"a": level}})
            return self.text("logged")
        if name == "named":
            block = {"type": "text", "text": "out", "name": "STDOUT"}
            return self.result({"content": [block], "vendor": {"cost": 1}})
        if name == "kinds":
            link = {"type": "resource_link", "uri": "file:///report", "name": "report", "description": "Figures."}
            sound = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
            return self.result({"content": [link, sound], "structuredContent": {"kinds": 2}})
        if name == "about":
            own = {**said, "capabilities": meta.get(META + "clientCapabilities")} if self.is_newest else said
            return self.text(json.dumps({**own, "meta": sorted(meta)}))
        return self.text(json.dumps(arguments))

    def question(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        method, asked = QUESTIONS[name]
        if not self.is_newest:
            return self.text(json.dumps(self.ask(method, asked)))
        answers = params.get("inputResponses")
        if answers is None:
            request = {"method": method, "params": asked}
            return self.result({"resultType": "input_required", "inputRequests": {"q": request}, "requestState": "s1"})
        return self.text(json.dumps({**answers["q"], "state": params.get("requestState")}))

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask on the connection; other messages are served meanwhile."""
        self.asked += 1
        name = f"talker-{self.asked}"
        self.send({"id": name, "method": method, "params": params})
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("id") == name and "method" not in message:
                return message.get("result") or {"error": message["error"]}
            self.hear(message)
        return {}

    def count(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        total = arguments.get("n", 3)
        for step in range(total):
            time.sleep(arguments.get("pause", 0))
            if token is not None:
                params = {"progressToken": token, "progress": step + 1, "total": total, "message": f"step {step + 1}"}
                self.notify("notifications/progress", params)
        return self.text("done")

    def research(self, params: dict[str, Any]) -> dict[str, Any]:
        if "task" not in params:
            return {"error": {"code": -32601, "message": "research must be run as a task"}}
        return {"result": {"task": self.task("working")}}

    def task(self, status: str) -> dict[str, Any]:
        at = "2026-01-01T00:00:00Z"
        task = {"taskId": "t1", "status": status, "statusMessage": "reading", "createdAt": at, "lastUpdatedAt": at}
        return {**task, "ttl": 60_000, "pollInterval": 50}

    def tasks_get(self, params: dict[str, Any]) -> dict[str, Any]:
        del params
        said["polls"] = said.get("polls", 0) + 1
        return {"result": self.task("completed" if said["polls"] > 1 else "working")}

    def tasks_result(self, params: dict[str, Any]) -> dict[str, Any]:
        del params
        return self.text("found it")

    def text(self, words: str) -> dict[str, Any]:
        return self.result({"content": [{"type": "text", "text": words}]})

    def result(self, members: dict[str, Any]) -> dict[str, Any]:
        # It leaves out what the newest revision wants besides, as some servers do.
        return {"result": members}

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"method": method, "params": params})

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--revision", default="2025-11-25")
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--silent", action="store_true")
    Talker(parser.parse_args()).run()


if __name__ == "__main__":
    main()
