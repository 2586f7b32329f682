"""Serves branching conversations. Each belongs to the user who began it; for others it is not found."""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.answers import answer_stream
from twinraven.api.schemas import TEXT, form, listing, ref
from twinraven.conversations import (
    MOST_CONTENT,
    TURN_TYPES,
    AnswerUnfinished,
    Conversation,
    ConversationArchived,
    ConversationTurn,
    ProcessUnsuitable,
    TooManyAlternatives,
)
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.models import ModelNotConfigured
from twinraven.serving import JsonSchema, QueryParameter, Request, Response, Route, RouteTable, page_of

ROUTES: Final = RouteTable()

_CONTENT: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": MOST_CONTENT, "pattern": "^[^\\u0000]*$"}
_TITLE: Final[JsonSchema] = {**TEXT, "type": ["string", "null"], "maxLength": 300}
_PROCESS: Final[JsonSchema] = {**TEXT, "description": "the process that answers; by default the one preferred"}
_QUOTES: Final[JsonSchema] = {
    "type": "array",
    "items": TEXT,
    "maxItems": 20,
    "description": "alternatives of other branches that are taken in as quotes",
}
_PARENT: Final[JsonSchema] = {**TEXT, "description": "the turn above it; by default the current one"}
_BUDGET: Final[JsonSchema] = {"type": "integer", "minimum": 1, "maximum": 100_000_000}
_ANSWERING: Final = (NotFound, ConversationArchived, AnswerUnfinished, ProcessUnsuitable, ModelNotConfigured)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/conversations",
        "listConversations",
        "Your conversations, the last changed first; an administrator's list has everybody's",
        listing("Conversation"),
        query=(QueryParameter("status", {"enum": ["active", "archived"]}, "only these"),),
        is_paged=True,
    )
)
async def list_conversations(request: Request) -> Response:
    query = request.query
    limit = int(query["limit"])
    before = query["cursor"][0] if "cursor" in query else None
    try:
        found = await request.raven.conversations.list(
            by=request.who, status=query.get("status"), limit=limit + 1, before=before
        )
    except NotFound:
        raise InvalidInput("cursor is not one that was given out", field="cursor") from None
    return Response(page=page_of(found, limit, place=_place_of_conversation, show=Conversation.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/conversations",
        "createConversation",
        "Begin a conversation",
        ref("Conversation"),
        status=201,
        body=form({}, optional={"title": _TITLE, "process_id": _PROCESS}),
        takes_camel_case=True,
        errors=(ProcessUnsuitable, ModelNotConfigured),
        takes_key=True,
        location="/v1/conversations/{id}",
        screened=True,
    )
)
async def create_conversation(request: Request) -> Response:
    body: dict[str, Any] = request.body
    made = await request.raven.conversations.create(
        by=request.who, title=body.get("title"), process_id=body.get("process_id")
    )
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/conversations/{conversation_id}",
        "showConversation",
        "One conversation",
        ref("Conversation"),
        errors=(NotFound,),
    )
)
async def show_conversation(request: Request) -> Response:
    found = await request.raven.conversations.get(request.path["conversation_id"], by=request.who)
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "PATCH",
        "/v1/conversations/{conversation_id}",
        "changeConversation",
        "Rename a conversation, prefer a process for its answers, archive or unarchive it",
        ref("Conversation"),
        body=form({}, optional={"title": _TITLE, "process_id": _PROCESS, "status": {"enum": ["active", "archived"]}}),
        takes_camel_case=True,
        errors=(NotFound, ConversationArchived, ProcessUnsuitable, ModelNotConfigured),
        note="Exactly one of the three. A conversation is never deleted.",
        screened=True,
    )
)
async def change_conversation(request: Request) -> Response:
    body: dict[str, Any] = request.body
    conversations, conversation_id = request.raven.conversations, request.path["conversation_id"]
    if len(body) != 1:
        raise InvalidInput("change one of title, process_id and status at a time", field="title")
    if "title" in body:
        changed = await conversations.rename(conversation_id, body["title"], by=request.who)
    elif "process_id" in body:
        changed = await conversations.choose_process(conversation_id, body["process_id"], by=request.who)
    elif body["status"] == "archived":
        changed = await conversations.archive(conversation_id, by=request.who)
    else:
        changed = await conversations.unarchive(conversation_id, by=request.who)
    return Response(changed.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/conversations/{conversation_id}/forks",
        "forkConversation",
        "Copy the active path up to a turn into a conversation of its own",
        ref("Conversation"),
        status=201,
        body=form({}, optional={"turn_id": TEXT, "alternative_id": TEXT, "title": _TITLE}),
        takes_camel_case=True,
        errors=(NotFound, ConversationArchived, AnswerUnfinished),
        takes_key=True,
        location="/v1/conversations/{id}",
        screened=True,
    )
)
async def fork_conversation(request: Request) -> Response:
    body: dict[str, Any] = request.body
    made = await request.raven.conversations.fork(
        request.path["conversation_id"],
        by=request.who,
        turn_id=body.get("turn_id"),
        alternative_id=body.get("alternative_id"),
        title=body.get("title"),
    )
    return Response(made.as_json(), status=201)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/conversations/{conversation_id}/turns",
        "listTurns",
        "All turns with all alternatives, in the order of their arrival",
        listing("ConversationTurn"),
        errors=(NotFound,),
        is_paged=True,
        cursor=(int,),
    )
)
async def list_turns(request: Request) -> Response:
    query = request.query
    limit = int(query["limit"])
    after = query["cursor"][0] if "cursor" in query else 0
    found = await request.raven.conversations.turns(
        request.path["conversation_id"], by=request.who, limit=limit + 1, after=after
    )
    return Response(page=page_of(found, limit, place=_place_of_turn, show=ConversationTurn.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/conversations/{conversation_id}/turns",
        "addTurn",
        "Append a turn: what a user or the system says, or an agent's, which its process answers",
        ref("ConversationTurn"),
        status=201,
        body=form(
            {"speaker": {"enum": ["user", "system", "agent"]}},
            optional={
                "content": {**_CONTENT, "description": "what is said; not for an agent"},
                "turn_type": {"enum": list(TURN_TYPES)},
                "parent_turn": _PARENT,
                "quotes": _QUOTES,
                "process_id": {**_PROCESS, "description": "for an agent: the process that answers"},
            },
        ),
        takes_camel_case=True,
        errors=_ANSWERING,
        takes_key=True,
        location="/v1/conversations/{conversation_id}/turns/{id}",
    )
)
async def add_turn(request: Request) -> Response:
    body: dict[str, Any] = request.body
    conversations, conversation_id = request.raven.conversations, request.path["conversation_id"]
    if body["speaker"] == "agent":
        _refuse(body, ("content", "turn_type", "quotes"), "is not for an agent's turn, whose process answers")
        turn = await conversations.answer(
            conversation_id, by=request.who, process_id=body.get("process_id"), parent_turn=body.get("parent_turn")
        )
    else:
        _refuse(body, ("process_id",), "is for an agent's turn alone")
        turn = await conversations.say(
            conversation_id,
            body.get("content", ""),
            by=request.who,
            speaker=body["speaker"],
            turn_type=body.get("turn_type", "message"),
            parent_turn=body.get("parent_turn"),
            quotes=body.get("quotes", ()),
        )
    return Response(turn.as_json(), status=201)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/conversations/{conversation_id}/messages",
        "converse",
        "Say something and let a process answer it, both or neither",
        form({"said": ref("ConversationTurn"), "answer": ref("ConversationTurn")}),
        status=202,
        body=form(
            {"content": _CONTENT},
            optional={"process_id": _PROCESS, "parent_turn": _PARENT, "quotes": _QUOTES},
        ),
        takes_camel_case=True,
        errors=_ANSWERING,
        takes_key=True,
        note="The answer is generating; its stream has the text as it comes.",
    )
)
async def converse(request: Request) -> Response:
    body: dict[str, Any] = request.body
    said, answer = await request.raven.conversations.converse(
        request.path["conversation_id"],
        body["content"],
        by=request.who,
        process_id=body.get("process_id"),
        parent_turn=body.get("parent_turn"),
        quotes=body.get("quotes", ()),
    )
    return Response({"said": said.as_json(), "answer": answer.as_json()}, status=202)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/conversations/{conversation_id}/turns/{turn_id}",
        "showTurn",
        "One turn with its alternatives",
        ref("ConversationTurn"),
        errors=(NotFound,),
    )
)
async def show_turn(request: Request) -> Response:
    found = await request.raven.conversations.turn(
        request.path["conversation_id"], request.path["turn_id"], by=request.who
    )
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/conversations/{conversation_id}/turns/{turn_id}/alternatives",
        "addAlternative",
        "Add another wording of what was said, or let an agent's turn be answered again",
        ref("ConversationTurn"),
        status=201,
        body=form(
            {},
            optional={
                "content": {**_CONTENT, "description": "the new wording; for an agent's turn leave it out"},
                "process_id": {
                    **_PROCESS,
                    "description": "another process; by default the process and version of the active answer",
                },
                "quotes": _QUOTES,
            },
        ),
        takes_camel_case=True,
        errors=(*_ANSWERING, TooManyAlternatives),
        takes_key=True,
        note="What is added becomes the active alternative.",
    )
)
async def add_alternative(request: Request) -> Response:
    body: dict[str, Any] = request.body
    where = request.path["conversation_id"], request.path["turn_id"]
    conversations = request.raven.conversations
    if "content" in body:
        _refuse(body, ("process_id",), "is for an agent's turn alone")
        turn = await conversations.edit(*where, body["content"], by=request.who, quotes=body.get("quotes", ()))
    else:
        _refuse(body, ("quotes",), "needs content beside it")
        turn = await conversations.regenerate(*where, by=request.who, process_id=body.get("process_id"))
    return Response(turn.as_json(), status=201)


@ROUTES.handles(
    Route(
        "POST",
        "/v1/conversations/{conversation_id}/turns/{turn_id}/active",
        "switchAlternative",
        "Make an alternative the active one of its turn, and look at what follows it",
        ref("ConversationTurn"),
        body=form({"alternative_id": TEXT}),
        takes_camel_case=True,
        errors=(NotFound, ConversationArchived),
    )
)
async def switch_alternative(request: Request) -> Response:
    turn = await request.raven.conversations.switch(
        request.path["conversation_id"], request.path["turn_id"], request.body["alternative_id"], by=request.who
    )
    return Response(turn.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/conversations/{conversation_id}/path",
        "showPath",
        "The turns from the root to the current turn, or to another one",
        form({"items": {"type": "array", "items": ref("ConversationTurn")}}),
        query=(QueryParameter("turn_id", TEXT, "up to this turn"),),
        errors=(NotFound,),
    )
)
async def show_path(request: Request) -> Response:
    found = await request.raven.conversations.path(
        request.path["conversation_id"], by=request.who, turn_id=request.query.get("turn_id")
    )
    return Response({"items": [turn.as_json() for turn in found]})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/conversations/{conversation_id}/memory",
        "showMemory",
        "What the next call of a model would be sent, item by item with its tokens and why it is there",
        ref("WorkingMemory"),
        query=(
            QueryParameter("turn_id", TEXT, "as seen from this turn"),
            QueryParameter("budget", _BUDGET, "within so many tokens"),
        ),
        errors=(NotFound,),
    )
)
async def show_memory(request: Request) -> Response:
    query = request.query
    found = await request.raven.conversations.memory(
        request.path["conversation_id"], by=request.who, turn_id=query.get("turn_id"), budget=query.get("budget")
    )
    return Response(found.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/conversations/{conversation_id}/alternatives/{alternative_id}/stream",
        "followAnswer",
        "An answer as it comes, as server-sent events",
        {"description": "events, each with its name and data"},
        errors=(NotFound,),
        takes_token=True,
        media="text/event-stream",
        note=(
            "Events: `text` ({text}, in order), `restart` (an attempt was cut off; forget its text), and at the end "
            "`done` or `failed` with the alternative. A client that reconnects with the last id it was given, as "
            "Last-Event-ID, misses nothing and gets nothing twice."
        ),
    )
)
async def follow_answer(request: Request) -> Response:
    return Response(stream=await answer_stream(request), media="text/event-stream")


def _refuse(body: dict[str, Any], names: tuple[str, ...], problem: str) -> None:
    for name in names:
        if name in body:
            raise InvalidInput(f"{name} {problem}", field=name)


def _place_of_conversation(found: Conversation) -> list[Any]:
    return [found.conversation_id]


def _place_of_turn(found: ConversationTurn) -> list[Any]:
    return [found.number]
