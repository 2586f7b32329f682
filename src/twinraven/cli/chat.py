"""`twinraven chat`: a conversation at the terminal, with its branches.

A line is said and answered; a line that begins with / is a command. Answers appear as they come. From a pipe every line
is said in turn, so a file of questions is a conversation, too.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from twinraven.cli.output import paint
from twinraven.cli.parser import CommandParser
from twinraven.cli.runs import local_caller, with_home

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.conversations import Alternative, ConversationTurn
    from twinraven.tenancy import Principal

_HELP: Final = """\
/edit TEXT      say your last message in other words, and have it answered
/retry [PROC]   have the last answer made again, by the same process or another
/turns          show the path, and how many alternatives each turn has
/switch T.N     make alternative N of turn T the active one, as /turns numbers them
/quote T.N TEXT say TEXT and take in alternative N of turn T, which is not on the path
/fork [TITLE]   go on in a copy of this path
/process PROC   let the next answers be made by another process
/title TEXT     give the conversation a title
/memory         show what the next call of the model would be sent
/quit           leave; twinraven chat ID goes on
"""


def register(parser: CommandParser) -> None:
    parser.add_argument("conversation", metavar="ID", nargs="?", help="go on with this one (default: a new one)")
    parser.add_argument("--last", action="store_true", help="go on with the one that was changed last")
    parser.add_argument("-m", "--message", metavar="TEXT", help="say this, print the answer and leave")
    parser.add_argument("--process", metavar="PROCESS", help="the process that answers (default: chat)")
    parser.add_argument("--title", metavar="TEXT", help="what to call a new one")
    parser.runs(run, example="twinraven chat --last -m Why?")


def run(options: Namespace) -> int:
    async def act(raven: TwinRaven) -> int:
        from twinraven.engine import somebody_working

        talk = await _begin(raven, options)
        async with somebody_working(raven.runs, raven.working):
            await talk.await_answer()
            if options.message is not None:
                return 0 if await talk.say(options.message) else 1
            return await _converse(talk)

    return with_home(options, act)


async def _begin(raven: TwinRaven, options: Namespace) -> TerminalChat:
    by = local_caller(options)
    conversation_id = options.conversation
    if conversation_id is None and options.last:
        listed = await raven.conversations.list(by=by, status="active", limit=1)
        conversation_id = listed[0].conversation_id if listed else None
    if conversation_id is None:
        # Named, so that without a model nothing is begun.
        made = await raven.conversations.create(by=by, title=options.title, process_id=options.process or "chat")
        conversation_id = made.conversation_id
    elif options.process is not None:
        await raven.conversations.choose_process(conversation_id, options.process, by=by)
    talk = TerminalChat(raven, conversation_id, by)
    if options.conversation is not None or options.last:
        await talk.show_path()
    return talk


async def _converse(talk: TerminalChat) -> int:
    """Take lines until there are no more; gives 1 where the last answer failed."""
    import asyncio

    from twinraven.foundation.errors import TwinRavenError

    is_watched = sys.stdin.isatty()
    if is_watched:
        print(f"conversation {talk.conversation_id}; /help lists commands, /quit leaves", file=sys.stderr)
    succeeded = True
    while True:
        try:
            line = await asyncio.to_thread(_read_line, is_watched)
        except (EOFError, KeyboardInterrupt):
            return 0 if succeeded else 1
        if not line.strip():
            continue
        if line.strip() in ("/quit", "/exit"):
            return 0 if succeeded else 1
        try:
            succeeded = await talk.take(line)
        except TwinRavenError as error:
            succeeded = False
            print(f"{error.code}: {error.message}", file=sys.stderr)
            if error.details.get("fix"):
                print(f"fix: {error.details['fix']}", file=sys.stderr)


def _read_line(is_watched: bool) -> str:
    if is_watched:
        return input("> ")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


class TerminalChat:
    """One conversation at a terminal."""

    def __init__(self, raven: TwinRaven, conversation_id: str, by: Principal) -> None:
        self._raven = raven
        self._by = by
        self.conversation_id = conversation_id
        self._commands: dict[str, Callable[[str], Awaitable[bool]]] = {
            "help": self._help,
            "edit": self._edit,
            "retry": self._retry,
            "turns": self._turns,
            "switch": self._switch,
            "quote": self._quote,
            "fork": self._fork,
            "process": self._process,
            "title": self._title,
            "memory": self._memory,
        }

    async def take(self, line: str) -> bool:
        """Do what a line says; False where an answer failed or there is no such command."""
        if not line.startswith("/"):
            return await self.say(line)
        word, _, rest = line[1:].partition(" ")
        act = self._commands.get(word)
        if act is None:
            print(f"there is no /{word}; /help lists commands", file=sys.stderr)
            return False
        return await act(rest.strip())

    async def say(self, text: str, quotes: tuple[str, ...] = ()) -> bool:
        """Say something and print the answer as it comes."""
        _, answer = await self._raven.conversations.converse(self.conversation_id, text, by=self._by, quotes=quotes)
        return await self._print(answer.active)

    async def await_answer(self) -> None:
        """Print the last answer where it is still being made: by somebody else, or anew where whoever made it died."""
        path = await self._path()
        if path and path[-1].active.state == "generating":
            print("(the last answer is not there yet; waiting for its end)", file=sys.stderr)
            await self._print(path[-1].active)

    async def show_path(self) -> None:
        """Print what was said so far."""
        for number, turn in enumerate(await self._path(), start=1):
            self._print_turn(number, turn, whole=True)

    async def _print(self, answer: Alternative) -> bool:
        from twinraven.conversations import Piece

        shown = ""
        async for piece in await self._raven.conversations.stream(
            self.conversation_id, answer.alternative_id, by=self._by
        ):
            if isinstance(piece, Piece):
                if shown and piece.number == 1:
                    print("\n(the answer was cut off and begins again)", file=sys.stderr)
                    shown = ""
                shown += piece.text
                print(printable(piece.text), end="", flush=True)
            elif piece is not None:
                return self._print_end(piece, shown)
        return False

    def _print_end(self, answer: Alternative, shown: str) -> bool:
        """Print what the stream did not show: its end, the whole where it is another text, or what went wrong."""
        if answer.error is not None:
            lead = "\n" if shown else ""
            print(f"{lead}{answer.error['code']}: {printable(str(answer.error['message']))}", file=sys.stderr)
            return False
        content = answer.content or ""
        rest = content.removeprefix(shown) if content.startswith(shown) else f"\n{content}"
        print(printable(rest), flush=True)
        return True

    async def _path(self) -> list[ConversationTurn]:
        return await self._raven.conversations.path(self.conversation_id, by=self._by)

    def _print_turn(self, number: int, turn: ConversationTurn, *, whole: bool = False) -> None:
        active, count = turn.active, len(turn.alternatives)
        marks = [f"{active.sequence} of {count}"] if count > 1 else []
        marks += [active.cache_status] if active.cache_status == "stale" else []
        said = active.content or (active.error or {}).get("code", active.state)
        text = printable(str(said))
        if not whole:
            text = text.replace("\n", " ")[:100]
        noted = f" ({', '.join(marks)})" if marks else ""
        print(f"{paint(f'{number} {turn.speaker}{noted}:', 'bold', sys.stdout)} {text}")

    async def _help(self, _: str) -> bool:
        print(_HELP, end="")
        return True

    async def _edit(self, text: str) -> bool:
        said = [turn for turn in await self._path() if turn.speaker == "user"]
        if not said:
            print("you have said nothing yet", file=sys.stderr)
            return False
        await self._raven.conversations.edit(self.conversation_id, said[-1].turn_id, text, by=self._by)
        answer = await self._raven.conversations.answer(self.conversation_id, by=self._by, parent_turn=said[-1].turn_id)
        return await self._print(answer.active)

    async def _retry(self, process_id: str) -> bool:
        answered = [turn for turn in await self._path() if turn.speaker == "agent"]
        if not answered:
            print("there is no answer yet", file=sys.stderr)
            return False
        turn = await self._raven.conversations.regenerate(
            self.conversation_id, answered[-1].turn_id, by=self._by, process_id=process_id or None
        )
        return await self._print(turn.active)

    async def _turns(self, _: str) -> bool:
        for number, turn in enumerate(await self._path(), start=1):
            self._print_turn(number, turn)
            if len(turn.alternatives) > 1:
                for each in turn.alternatives:
                    text = printable((each.content or each.state).replace("\n", " "))[:90]
                    print(f"   {number}.{each.sequence}{' *' if each.is_active else '  '} {text}")
        return True

    async def _switch(self, place: str) -> bool:
        found = await self._find(place)
        if found is None:
            return False
        await self._raven.conversations.switch(self.conversation_id, found.turn_id, found.alternative_id, by=self._by)
        return await self._turns("")

    async def _quote(self, rest: str) -> bool:
        place, _, text = rest.partition(" ")
        found = await self._find(place)
        return found is not None and await self.say(text, (found.alternative_id,))

    async def _find(self, place: str) -> Alternative | None:
        """Find the alternative at `T.N`, as /turns numbers them."""
        turn, _, number = place.partition(".")
        path = await self._path()
        if turn.isdecimal() and number.isdecimal() and 1 <= int(turn) <= len(path):
            for each in path[int(turn) - 1].alternatives:
                if each.sequence == int(number):
                    return each
        print(f"there is no {place or 'such place'}; /turns shows the numbers, such as 2.1", file=sys.stderr)
        return None

    async def _fork(self, title: str) -> bool:
        made = await self._raven.conversations.fork(self.conversation_id, by=self._by, title=title or None)
        self.conversation_id = made.conversation_id
        print(f"this is conversation {made.conversation_id} now", file=sys.stderr)
        return True

    async def _process(self, process_id: str) -> bool:
        await self._raven.conversations.choose_process(self.conversation_id, process_id, by=self._by)
        return True

    async def _title(self, text: str) -> bool:
        await self._raven.conversations.rename(self.conversation_id, text, by=self._by)
        return True

    async def _memory(self, _: str) -> bool:
        from twinraven.cli.conversations import print_memory

        print_memory("table", await self._raven.conversations.memory(self.conversation_id, by=self._by))
        return True


def printable(text: str) -> str:
    """Escape a text so that it cannot take a terminal over: all but printable characters, lines and tabs."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )
