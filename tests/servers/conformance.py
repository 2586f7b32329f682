"""An MCP server with what the official conformance suite asks servers for.

python conformance.py PORT
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage

from tests.servers.new import PICTURE, SOUND

server = MCPServer("conformance", instructions="A server for tests of conformance.")

Calling = Context[Any]
IMAGE = types.ImageContent(type="image", data=PICTURE, mime_type="image/png")
DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
_ONE = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _ONE},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _ONE}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}


def embedded(uri: str, words: str) -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    return types.EmbeddedResource(type="resource", resource=resource)


@server.tool()
def test_simple_text() -> str:
    """Says something."""
    return "This is a simple text response for testing."


@server.tool()
def test_image_content() -> types.ImageContent:
    """Shows something."""
    return IMAGE


@server.tool()
def test_audio_content() -> types.AudioContent:
    """Plays something."""
    return types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")


@server.tool()
def test_embedded_resource() -> types.EmbeddedResource:
    """Brings a resource."""
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@server.tool()
def test_multiple_content_types() -> list[Any]:
    """Brings several things."""
    words = types.TextContent(type="text", text="Multiple content types test:")
    return [words, IMAGE, embedded("test://mixed-content-resource", '{"test":"data","value":123}')]


@server.tool()
def test_error_handling() -> str:
    """Fails."""
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
async def test_tool_with_logging(ctx: Calling) -> str:
    """Logs."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)  # pyright: ignore[reportDeprecated]
    return "logged"


@server.tool()
async def test_tool_with_progress(ctx: Calling) -> str:
    """Reports progress."""
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, 100, f"Completed step {progress} of 100")
    return "done"


@server.tool()
async def test_sampling(prompt: str, ctx: Calling) -> str:
    """Asks the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)  # pyright: ignore[reportDeprecated]
    return f"LLM response: {answer.content}"


@server.tool()
async def test_elicitation(message: str, ctx: Calling) -> str:
    """Asks the person at the client."""
    names = {"username": {"type": "string"}, "email": {"type": "string"}}
    schema = {"type": "object", "properties": names, "required": ["username", "email"]}
    return f"User response: {await ctx.session.elicit_form(message, schema, ctx.request_id)}"


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Calling) -> str:
    """Asks with defaults."""
    return f"Elicitation completed: {await ctx.session.elicit_form('Please review', DEFAULTS, ctx.request_id)}"


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Calling) -> str:
    """Asks for choices."""
    return f"Elicitation completed: {await ctx.session.elicit_form('Please choose', ENUMS, ctx.request_id)}"


@server.prompt()
def test_simple_prompt() -> str:
    """A prompt."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 - the name that the suite sends
    """A prompt with a resource."""
    content = embedded(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(content)]


@server.prompt()
def test_prompt_with_image() -> list[Any]:
    """A prompt with a picture."""
    return [UserMessage(IMAGE)]


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return b"\x89PNG not really"


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """A text that may change."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", mime_type="application/json")
def templated(id: str) -> str:
    """One of many."""
    return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


@server.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion:
    """Knows two words."""
    del ref, context
    return types.Completion(values=[word for word in ("paris", "park") if word.startswith(argument.value)])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
