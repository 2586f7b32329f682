"""`twinraven conversations`: dialogue that branches, and what the next call of a model would be sent."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from twinraven.cli.arguments import count
from twinraven.cli.output import TableColumn, show_fields, show_json, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, with_home
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.conversations import Conversation, ConversationTurn, WorkingMemory

_COLUMNS = (
    TableColumn("id", "CONVERSATION"),
    TableColumn("title", "TITLE", shrinks=True),
    TableColumn("status", "STATUS"),
    TableColumn("process", "PROCESS", spare=2),
    TableColumn("updated_at", "CHANGED", text=short_time, spare=1),
)
_TURN_COLUMNS = (
    TableColumn("turn", "TURN"),
    TableColumn("sequence", "DEPTH", right=True),
    TableColumn("speaker", "SPEAKER"),
    TableColumn("alternative", "ALTERNATIVE"),
    TableColumn("which", "WHICH", spare=2),
    TableColumn("state", "STATE", tinted=True),
    TableColumn("made_by", "MADE BY", spare=3),
    TableColumn("content", "CONTENT", shrinks=True),
)
_MEMORY_COLUMNS = (
    TableColumn("kind", "KIND"),
    TableColumn("tokens", "TOKENS", right=True),
    TableColumn("role", "AS"),
    TableColumn("why", "WHY IT IS THERE", shrinks=True),
    TableColumn("text", "TEXT", shrinks=True),
)
_LEFT_OUT_COLUMNS = (
    TableColumn("kind", "LEFT OUT"),
    TableColumn("tokens", "TOKENS", right=True),
    TableColumn("why", "WHY"),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven conversations list\ntwinraven conversations memory ID")
    _register_conversations(parser)
    _register_turns(parser)
    listing = parser.command("list", "list conversations, the last changed first")
    listing.add_argument("--status", choices=("active", "archived"), help="only these")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="at most N (default: 50)")
    listing.takes_output("table", "json", "csv")
    listing.runs(list_conversations, example="twinraven conversations list --status active")
    memory = parser.command("memory", "show what the next call of a model would be sent, item by item")
    _add_conversation(memory)
    memory.add_argument("--turn", metavar="TURN", help="as seen from this turn (default: the current one)")
    memory.add_argument("--budget", type=count, metavar="N", help="within so many tokens")
    memory.takes_output("table", "json")
    memory.runs(show_memory, example="twinraven conversations memory ID --budget 4000")


def _register_conversations(parser: CommandParser) -> None:
    new = parser.command("new", "begin a conversation")
    new.add_argument("--title", metavar="TEXT", help="what to call it")
    new.add_argument("--process", metavar="PROCESS", help="the process that answers (default: chat)")
    new.takes_output("table", "json")
    new.runs(create, example="twinraven conversations new --title 'Order W1001'")
    for name, what, act in (
        ("show", "show a conversation and its current path", show_conversation),
        ("archive", "archive a conversation; it is never deleted", archive),
        ("unarchive", "take an archived conversation up again", unarchive),
    ):
        command = parser.command(name, what)
        _add_conversation(command)
        command.takes_output("table", "json")
        command.runs(act, example=f"twinraven conversations {name} ID")
    rename = parser.command("rename", "give a conversation another title")
    _add_conversation(rename)
    rename.add_argument("title", metavar="TITLE", help="the title")
    rename.takes_output("table", "json")
    rename.runs(rename_conversation, example="twinraven conversations rename ID 'Order W1001'")
    process = parser.command("process", "let the next answers be made by another process")
    _add_conversation(process)
    process.add_argument("process", metavar="PROCESS", help="an enabled process")
    process.takes_output("table", "json")
    process.runs(choose_process, example="twinraven conversations process ID chat_with_tools")
    fork = parser.command("fork", "copy the active path into a conversation of its own")
    _add_conversation(fork)
    fork.add_argument("--turn", metavar="TURN", help="up to this turn (default: the current one)")
    fork.add_argument("--title", metavar="TEXT", help="what to call it")
    fork.takes_output("table", "json")
    fork.runs(fork_conversation, example="twinraven conversations fork ID --title 'Another way'")


def _register_turns(parser: CommandParser) -> None:
    turns = parser.command("turns", "list all turns with all alternatives")
    _add_conversation(turns)
    turns.add_argument("--limit", type=count, default=200, metavar="N", help="at most N turns (default: 200)")
    turns.takes_output("table", "json", "csv")
    turns.runs(list_turns, example="twinraven conversations turns ID")
    say = parser.command("say", "append a turn that nobody answers")
    _add_conversation(say)
    say.add_argument("content", metavar="TEXT", help="what is said")
    say.add_argument("--speaker", choices=("user", "system"), default="user", help="who says it (default: user)")
    say.add_argument(
        "--type", choices=("message", "tool_result", "summary"), default="message", help="what it is (default: message)"
    )
    say.add_argument("--parent", metavar="TURN", help="below this turn (default: the current one)")
    say.add_argument("--quote", metavar="ALTERNATIVE", action="append", default=[], help="take in another branch's")
    say.takes_output("table", "json")
    say.runs(say_something, example="twinraven conversations say ID 'The order is late.'")
    answer = parser.command("answer", "let a process answer, and wait for the answer")
    _add_conversation(answer)
    answer.add_argument("--process", metavar="PROCESS", help="the process that answers")
    answer.add_argument("--parent", metavar="TURN", help="what it answers (default: the current turn)")
    answer.takes_output("table", "json")
    answer.runs(answer_turn, example="twinraven conversations answer ID --process chat_with_tools")
    edit = parser.command("edit", "add another wording of a turn, or let an agent's turn be answered again")
    _add_conversation(edit)
    edit.add_argument("turn", metavar="TURN", help="the turn")
    edit.add_argument("content", metavar="TEXT", nargs="?", help="the new wording; none for an agent's turn")
    edit.add_argument("--process", metavar="PROCESS", help="for an agent's turn: another process")
    edit.takes_output("table", "json")
    edit.runs(edit_turn, example="twinraven conversations edit ID TURN 'Why is it late?'")
    switch = parser.command("switch", "make an alternative the active one of its turn")
    _add_conversation(switch)
    switch.add_argument("turn", metavar="TURN", help="the turn")
    switch.add_argument("alternative", metavar="ALTERNATIVE", help="the alternative")
    switch.takes_output("table", "json")
    switch.runs(switch_alternative, example="twinraven conversations switch ID TURN ALTERNATIVE")


def _add_conversation(parser: CommandParser) -> None:
    parser.add_argument("conversation", metavar="ID", help="the conversation's id")


def create(options: Namespace) -> None:
    by = local_caller(options)
    _show(
        options,
        with_home(
            options, lambda raven: raven.conversations.create(by=by, title=options.title, process_id=options.process)
        ),
    )


def list_conversations(options: Namespace) -> None:
    found: list[Conversation] = with_home(
        options,
        lambda raven: raven.conversations.list(by=local_caller(options), status=options.status, limit=options.limit),
    )
    rows = [each.as_json() if options.output == "json" else _row(each) for each in found]
    show_rows(options.output, rows, _COLUMNS, empty="no conversations; begin one with: twinraven chat")


def show_conversation(options: Namespace) -> None:
    by = local_caller(options)

    async def act(raven: TwinRaven) -> tuple[Conversation, list[ConversationTurn]]:
        found = await raven.conversations.get(options.conversation, by=by)
        return found, await raven.conversations.path(options.conversation, by=by)

    found, path = with_home(options, act)
    if options.output == "json":
        show_json({**found.as_json(), "path": [turn.as_json() for turn in path]})
    else:
        _show(options, found)
        _show_turns(options, path)


def rename_conversation(options: Namespace) -> None:
    _changed(options, lambda raven: raven.conversations.rename(
        options.conversation, options.title, by=local_caller(options)
    ))  # fmt: skip


def archive(options: Namespace) -> None:
    _changed(options, lambda raven: raven.conversations.archive(options.conversation, by=local_caller(options)))


def unarchive(options: Namespace) -> None:
    _changed(options, lambda raven: raven.conversations.unarchive(options.conversation, by=local_caller(options)))


def choose_process(options: Namespace) -> None:
    _changed(options, lambda raven: raven.conversations.choose_process(
        options.conversation, options.process, by=local_caller(options)
    ))  # fmt: skip


def fork_conversation(options: Namespace) -> None:
    _changed(options, lambda raven: raven.conversations.fork(
        options.conversation, by=local_caller(options), turn_id=options.turn, title=options.title
    ))  # fmt: skip


def list_turns(options: Namespace) -> None:
    found: list[ConversationTurn] = with_home(
        options,
        lambda raven: raven.conversations.turns(options.conversation, by=local_caller(options), limit=options.limit),
    )
    if options.output == "json":
        show_json([turn.as_json() for turn in found])
    else:
        _show_turns(options, found)


def say_something(options: Namespace) -> None:
    _told(options, lambda raven: raven.conversations.say(
        options.conversation,
        options.content,
        by=local_caller(options),
        speaker=options.speaker,
        turn_type=options.type,
        parent_turn=options.parent,
        quotes=options.quote,
    ))  # fmt: skip


def answer_turn(options: Namespace) -> int:
    async def act(raven: TwinRaven) -> ConversationTurn:
        turn = await raven.conversations.answer(
            options.conversation, by=local_caller(options), process_id=options.process, parent_turn=options.parent
        )
        return await _ended(raven, options, turn)

    return _told(options, act)


def edit_turn(options: Namespace) -> int:
    async def act(raven: TwinRaven) -> ConversationTurn:
        by, where = local_caller(options), (options.conversation, options.turn)
        if options.content is not None:
            return await raven.conversations.edit(*where, options.content, by=by)
        turn = await raven.conversations.regenerate(*where, by=by, process_id=options.process)
        return await _ended(raven, options, turn)

    return _told(options, act)


def switch_alternative(options: Namespace) -> None:
    _told(options, lambda raven: raven.conversations.switch(
        options.conversation, options.turn, options.alternative, by=local_caller(options)
    ))  # fmt: skip


def show_memory(options: Namespace) -> None:
    found: WorkingMemory = with_home(
        options,
        lambda raven: raven.conversations.memory(
            options.conversation, by=local_caller(options), turn_id=options.turn, budget=options.budget
        ),
    )
    if options.output == "json":
        show_json(found.as_json())
    else:
        print_memory(options.output, found)


def print_memory(form: str, found: WorkingMemory) -> None:
    """Print the items of a working memory, what was left out, and the sum."""
    show_rows(form, [item.as_json() for item in found.items], _MEMORY_COLUMNS, empty="nothing was said yet")
    if found.left_out:
        show_rows(form, [each.as_json() for each in found.left_out], _LEFT_OUT_COLUMNS)
    print(f"{found.total_tokens} of {found.budget} tokens")


async def _ended(raven: TwinRaven, options: Namespace, turn: ConversationTurn) -> ConversationTurn:
    """Return the turn when its answer has ended."""
    from twinraven.engine import somebody_working

    by = local_caller(options)
    async with somebody_working(raven.runs, raven.working):
        async for _ in await raven.conversations.stream(options.conversation, turn.active.alternative_id, by=by):
            pass
    return await raven.conversations.turn(options.conversation, turn.turn_id, by=by)


def _changed(options: Namespace, act: Callable[[TwinRaven], Awaitable[Conversation]]) -> None:
    _show(options, with_home(options, act))


def _told(options: Namespace, act: Callable[[TwinRaven], Awaitable[ConversationTurn]]) -> int:
    """Show a turn; an answer that failed is a failure of the command."""
    turn: ConversationTurn = with_home(options, act)
    if options.output == "json":
        show_json(turn.as_json())
    else:
        _show_turns(options, [turn])
    return 1 if turn.active.state == "failed" else 0


def _show(options: Namespace, found: Conversation) -> None:
    show_fields(options.output, found.as_json() if options.output == "json" else _row(found))


def _row(found: Conversation) -> dict[str, Any]:
    return {
        "id": found.conversation_id,
        "title": found.title or "",
        "status": found.status,
        "process": found.default_process or "",
        "updated_at": found.as_json()["updated_at"],
    }


def _show_turns(options: Namespace, turns: list[ConversationTurn]) -> None:
    rows = [
        {
            "turn": turn.turn_id,
            "sequence": turn.sequence,
            "speaker": turn.speaker,
            "alternative": each.alternative_id,
            "which": f"{each.sequence}{' active' if each.is_active else ''}",
            "state": "stale" if each.cache_status == "stale" else each.state,
            "made_by": "" if each.process_id is None else f"{each.process_id} v{each.process_version}",
            "content": each.content if each.error is None else f"{each.error['code']}: {each.error['message']}",
        }
        for turn in turns
        for each in turn.alternatives
    ]
    show_rows(options.output, rows, _TURN_COLUMNS, empty="nothing was said yet")
