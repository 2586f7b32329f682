"""`twinraven model`: ask the configured model, or serve a scripted one for tests, demos and examples."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.definitions import read_text
from twinraven.cli.gateway import ListenAddress, address
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.models import ModelAnswer, ModelScript, ScriptedExchange


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven model ask Hello\ntwinraven model serve answers.yaml")
    ask = parser.command("ask", "ask the configured model and record the answer")
    ask.add_argument("question", metavar="QUESTION", nargs="+", help="what to ask; several words are one question")
    ask.add_argument("--system", metavar="TEXT", help="how the model is to behave")
    ask.takes_output("text", "json")
    ask.runs(ask_model, example="twinraven model ask 'Name three Norse birds.'")
    serve = parser.command("serve", "serve a scripted model over HTTP, in both protocols")
    serve.add_argument("script", metavar="SCRIPT", help="its answers, in YAML or JSON")
    serve.add_argument(
        "--http",
        type=_any_address,
        default=ListenAddress("127.0.0.1", 8766),
        metavar="HOST:PORT",
        help="listen there (default: 127.0.0.1:8766); port 0 takes a free one",
    )
    serve.runs(serve_script, example="twinraven model serve answers.yaml --http 127.0.0.1:8766")


def _any_address(text: str) -> ListenAddress:
    """Return an address to listen on, of which port 0 is whichever is free."""
    host, separator, port = text.rpartition(":")
    return ListenAddress(host, 0) if separator and port == "0" and host else address(text)


def ask_model(options: Namespace) -> None:
    from twinraven.cli.output import show_json
    from twinraven.cli.runs import local_caller, with_home

    async def act(raven: TwinRaven) -> ModelAnswer:
        from twinraven.calls import CallContext
        from twinraven.foundation.ids import new_id
        from twinraven.models import ModelQuestion

        caller = local_caller(options)
        context = CallContext(f"model:{new_id()}", caller=caller.user_id, actor=caller.actor)
        question = ModelQuestion.of(" ".join(options.question), system=options.system)
        async with raven.models.stream(question, context, tenant_id=options.tenant) as stream:
            async for piece in stream:
                if options.output == "text":
                    print(piece, end="", flush=True)
            return await stream.answer()

    answer: ModelAnswer = with_home(options, act)
    if options.output == "json":
        show_json(answer.as_json())
        return
    print()
    cost = "" if answer.amount is None else f", {answer.amount} {answer.currency}"
    tokens = answer.input_tokens + answer.output_tokens
    print(f"{answer.model}: {tokens} tokens{cost}", file=sys.stderr)


def serve_script(options: Namespace) -> None:
    script = _read(options.script)
    try:
        from twinraven.serving import run
    except ImportError as error:
        from twinraven.foundation.errors import InvalidInput

        fix = "pip install 'twinraven[api]'"
        raise InvalidInput(f"a server needs more than is installed: {error}", fix=fix) from error
    run(_serve(script, options.http))


async def _serve(script: ModelScript, where: ListenAddress) -> None:
    from twinraven.models import ScriptedModel
    from twinraven.serving import listener, open_socket, serve

    def tell(exchange: ScriptedExchange) -> None:
        given = "" if exchange.is_answered else ", to which the script has no answer"
        print(f"twinraven: asked {exchange.asked.last[:70]!r}{given}", file=sys.stderr, flush=True)

    opened = open_socket(where.host, where.port)
    port = opened.getsockname()[1]
    print(f"twinraven: a scripted model listens on http://{where.host}:{port}/v1", file=sys.stderr, flush=True)
    await serve(listener(ScriptedModel(script, tell), where.host, port, fd=opened.detach()))


def _read(file: str) -> ModelScript:

    from twinraven.catalog import load_document
    from twinraven.models import read_script

    text = read_text(file, field="script")
    return read_script(load_document(text))
