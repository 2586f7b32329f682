"""An MCP server of an old revision, on the standard library alone, that misbehaves where it is asked to.

    python old.py [--revision 2024-11-05] [--tools FILE] [--banner] [--tools-only | --no-tools] [--dumb METHOD]

FILE holds a JSON list of tool definitions; it is read for each `tools/list`, so that a test can change it. Any tool
that is not one of the special names below answers with its own name and arguments, as JSON in a text. It has a prompt
and a few resources, unless it is to have tools only, or everything but tools; METHOD is never answered.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

NAMES = (
    *("echo", "die", "die_loudly", "hang", "flood", "chatter", "broken", "refuse", "fail", "pid", "variable", "news"),
    "change_note",
)
TEXT = {"uri": "note://old/today", "name": "today", "mimeType": "text/plain"}
BLOB = {"uri": "picture://old/logo", "name": "logo", "mimeType": "image/png"}
SHARED = {"uri": "note://shared", "name": "shared", "mimeType": "text/plain"}
TEMPLATE = {"uriTemplate": "order://old/{order_id}", "name": "order", "mimeType": "text/plain"}
PROMPT = {
    "name": "greet",
    "description": "Greets somebody.",
    "arguments": [{"name": "name", "description": "Who it is", "required": True}],
}
subscribed: set[str] = set()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--revision", default="2024-11-05")
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--banner", action="store_true")
    parser.add_argument("--tools-only", action="store_true")
    parser.add_argument("--no-tools", action="store_true")
    parser.add_argument("--dumb", default="")
    options = parser.parse_args()
    if options.banner:
        write("Old server, ready when you are!")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer(message, options)


def answer(message: dict[str, Any], options: argparse.Namespace) -> None:
    method, params = message["method"], message.get("params", {})
    if method == options.dumb:
        return
    if method == "initialize":
        capabilities: dict[str, Any] = {} if options.no_tools else {"tools": {"listChanged": True}}
        if not options.tools_only:
            capabilities["prompts"] = {"listChanged": True}
            capabilities["resources"] = {"listChanged": True, "subscribe": True}
        info = {"name": "old", "version": "1"}
        reply(message, {"protocolVersion": options.revision, "capabilities": capabilities, "serverInfo": info})
    elif method.startswith("tools/") and options.no_tools:
        unknown(message)
    elif method == "tools/list":
        reply(message, {"tools": definitions(options.tools)})
    elif method == "tools/call":
        reply(message, call(params["name"], params.get("arguments", {}), message))
    elif method.startswith(("prompts/", "resources/")) and not options.tools_only:
        globals()["_".join(method.split("/"))](message, params)
    else:
        unknown(message)


def unknown(message: dict[str, Any]) -> None:
    send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


def prompts_list(message: dict[str, Any], params: dict[str, Any]) -> None:
    del params
    reply(message, {"prompts": [PROMPT]})


def prompts_get(message: dict[str, Any], params: dict[str, Any]) -> None:
    words = f"Say hello to {params.get('arguments', {}).get('name')}, as {params['name']} would."
    content = {"type": "text", "text": words}
    picture = {"type": "resource", "resource": {**{k: BLOB[k] for k in ("uri", "mimeType")}, "blob": "iVBO"}}
    messages = [{"role": "user", "content": content}, {"role": "user", "content": picture}]
    reply(message, {"description": "A greeting", "messages": messages})


def resources_list(message: dict[str, Any], params: dict[str, Any]) -> None:
    """Two pages."""
    if "cursor" in params:
        reply(message, {"resources": [SHARED]})
    else:
        reply(message, {"resources": [TEXT, BLOB], "nextCursor": "more"})


def resources_templates_list(message: dict[str, Any], params: dict[str, Any]) -> None:
    del params
    reply(message, {"resourceTemplates": [TEMPLATE]})


def resources_read(message: dict[str, Any], params: dict[str, Any]) -> None:
    uri = params["uri"]
    answers: dict[str, dict[str, str]] = {
        TEXT["uri"]: {"text": "old: nothing much"},
        SHARED["uri"]: {"text": "old: shared"},
        BLOB["uri"]: {"blob": "iVBO"},
        "order://old/asked": {"text": json.dumps(params)},
        "order://old/die": {"die": ""},
        "order://old/flood": {"flood": ""},
    }
    held = answers.get(uri, {"text": f"old: order {uri[12:]}"} if uri.startswith("order://old/") else {})
    if "die" in held:
        os._exit(9)
    if "flood" in held:
        held = {"text": "x" * 100_000_000}
    if not held:
        error = {"code": -32002, "message": "Resource not found", "data": {"uri": uri}}
        send({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return
    reply(message, {"contents": [{"uri": uri, "mimeType": "text/plain", **held}]})


def resources_subscribe(message: dict[str, Any], params: dict[str, Any]) -> None:
    subscribed.add(params["uri"])
    send({"jsonrpc": "2.0", "id": message["id"], "result": {}})


def resources_unsubscribe(message: dict[str, Any], params: dict[str, Any]) -> None:
    subscribed.discard(params["uri"])
    send({"jsonrpc": "2.0", "id": message["id"], "result": {}})


def definitions(file: Path | None) -> list[dict[str, Any]]:
    if file is not None:
        return json.loads(file.read_text())
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return [{"name": name, "description": f"Does {name}.", "inputSchema": schema} for name in NAMES]


def call(name: str, arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    special = globals().get(f"tool_{name}")
    if special is not None:
        return special(arguments, message)
    return text(json.dumps({"tool": name, "arguments": arguments}))


def tool_die(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del arguments, message
    os._exit(7)


def tool_die_loudly(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del message
    sys.stderr.write(f"fatal: cannot go on with {arguments.get('text')}\n")
    sys.stderr.flush()
    os._exit(8)


def tool_hang(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del arguments, message
    time.sleep(3600)
    return {}


def tool_flood(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del message
    return text("x" * int(arguments.get("text", 100_000_000)))


def tool_chatter(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """Talks without end, each message a valid one."""
    del arguments, message
    while True:
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "!"}})


def tool_broken(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del arguments
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("x")})[:-8])
    time.sleep(3600)
    return {}


def tool_fail(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del message
    return {**text(f"no luck with {arguments.get('text')}"), "isError": True}


def tool_refuse(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del arguments
    send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "I will not"}})
    return {}


def tool_pid(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del arguments, message
    return text(str(os.getpid()))


def tool_variable(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    del message
    return text(json.dumps(dict(os.environ)) if not arguments else os.environ.get(arguments["text"], ""))


def tool_news(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """Announces that its tools changed."""
    del arguments, message
    send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    return text("told")


def tool_change_note(arguments: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """Says that its prompts, its resources and those that somebody subscribed to changed."""
    del arguments, message
    send({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
    send({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"})
    for uri in sorted(subscribed):
        send({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
    return text(json.dumps(sorted(subscribed)))


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def reply(message: dict[str, Any], result: dict[str, Any]) -> None:
    if result:
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def send(message: dict[str, Any]) -> None:
    write(json.dumps(message))


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
