"""Writes sources as the mapping language of definitions, and as words a reviewer can check."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from twinraven.flow import literal
from twinraven.huginn.synthesis.sources import (
    MISSING,
    AllOf,
    Assembled,
    Constant,
    Default,
    EachOf,
    ElementFilter,
    FirstWhere,
    FromStep,
    Joined,
    LookUp,
    Path,
    Read,
    Source,
    SourceEvidence,
)

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

OMITTED = object()
"""What stands for an argument that is left out."""

Wire = Callable[[int, str, Any], str]
"""Names a value taken out of a step's output once, and gives the reference to it."""


def reference_text(path: Sequence[str | int | Read]) -> str:
    """Return a plain path as a reference."""
    text = "$"
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif isinstance(segment, Read):
            raise TypeError("a path that reads a text is a mapping, not a reference")
        elif _PLAIN_KEY.fullmatch(segment) or segment.isdecimal():
            text += f".{segment}"
        else:
            text += f"[{orjson.dumps(segment).decode()}]"
    return text


def path_mapping(start: tuple[str | int, ...], path: Path) -> Any:
    """Return a path as a mapping: a reference, read by readers where the path says so."""
    whole = (*start, *path)
    reads = [place for place, segment in enumerate(whole) if isinstance(segment, Read)]
    if not reads:
        return reference_text(whole)
    mapping: Any = reference_text(whole[: reads[0]])
    for place, end in zip(reads, [*reads[1:], len(whole)], strict=True):
        segment = whole[place]
        body: dict[str, Any] = {"of": mapping, "as": segment.kind if isinstance(segment, Read) else ""}
        inner = whole[place + 1 : end]
        if inner:
            body["at"] = reference_text(inner)
        mapping = {"$read": body}
    return mapping


def source_mapping(source: Source, name: str, wire: Wire) -> Any:
    """Return the input mapping of one argument."""
    if isinstance(source, Constant):
        return OMITTED if source.text == MISSING else literal(orjson.loads(source.text))
    if isinstance(source, (Default, LookUp)):
        raise TypeError("what the caller gives is a parameter of the tool")
    if isinstance(source, EachOf):
        item = path_mapping(("item",), source.item_path)
        return item if source.transform is None else source.transform.around(item)
    if isinstance(source, Joined):
        return {
            "$join": [part if isinstance(part, str) else source_mapping(part, name, wire) for part in _escaped(source)]
        }
    if isinstance(source, AllOf):
        return _all_of(source, name, wire)
    if isinstance(source, FirstWhere):
        return wire(source.step, name, _first_where(source))
    if isinstance(source, Assembled):
        members = [(key, source_mapping(member, name, wire)) for key, member in source.members]
        return [member for _, member in members] if source.is_list else {str(key): member for key, member in members}
    return _from_step(source, name, wire)


def look_up_mapping(source: LookUp, parameter: str) -> Any:
    """Write the look-up of a name that the caller gives."""
    whole = path_mapping(("steps", source.step, "output"), source.path)
    found: dict[str, Any] = {"of": whole, "equals": reference_text(("parameters", parameter)), "first": True}
    if source.by:
        found["at"] = reference_text(source.by)
    mapping: Any = {"$where": found}
    return {"$at": {"of": mapping, "path": reference_text(source.item_path)}} if source.item_path else mapping


def look_up_json(source: LookUp, parameter: str) -> dict[str, Any]:
    """Return a look-up as evidence keeps it, so that replay can tell which name a recorded value had."""
    return {
        "parameter": parameter,
        "step": source.step,
        "path": [{"read": segment.kind} if isinstance(segment, Read) else segment for segment in source.path],
        "by": list(source.by),
        "item_path": list(source.item_path),
    }


def read_look_up(body: dict[str, Any]) -> tuple[LookUp, str]:
    """Read the inverse of `look_up_json`."""
    path = tuple(map(_segment, body["path"]))
    return LookUp(body["step"], path, tuple(body["by"]), tuple(body["item_path"])), body["parameter"]


def _segment(stored: str | int | dict[str, str]) -> str | int | Read:
    return Read(stored["read"]) if isinstance(stored, dict) else stored


def _first_where(source: FirstWhere) -> Any:
    chosen = _where(path_mapping(("steps", source.step, "output"), source.list_path), source.where)
    first = {"$where": {**chosen["$where"], "first": True}}
    return {"$at": {"of": first, "path": reference_text(source.item_path)}} if source.item_path else first


def list_mapping(source: EachOf | AllOf) -> Any:
    """List the list that a map runs over or a list argument is made of."""
    whole = path_mapping(("steps", source.step, "output"), source.list_path)
    return whole if source.where is None else _where(whole, source.where)


def is_plain(path: Path) -> bool:
    """Return whether a path reads no text, so that it can be written as one reference."""
    return not any(isinstance(segment, Read) for segment in path)


def among_mapping(whole: Any, path: Path, parameter: str) -> Any:
    """Return those elements of a list whose value at a plain path the caller names; all, if it names none."""
    named: dict[str, Any] = {"of": whole, "among": reference_text(("parameters", parameter))}
    return {"$where": {**named, "at": reference_text(path)} if path else named}


def list_name(path: Path) -> str:
    """Return a name for a list: the last name on its path, or how it was read."""
    for segment in reversed(path):
        if isinstance(segment, Read):
            return "items" if segment.kind in ("json", "repr", "yaml") else segment.kind
        if isinstance(segment, str):
            return segment
    return "items"


def source_text(source: Source) -> str:
    """Return a source in words a reviewer can check."""
    if isinstance(source, Constant):
        return "left out" if source.text == MISSING else f"always {source.text}"
    if isinstance(source, Default):
        return f"by default {source.text}"
    if isinstance(source, (EachOf, AllOf, FirstWhere)):
        kind = {EachOf: "each of", AllOf: "all of", FirstWhere: "the first of"}[type(source)]
        text = f"{kind} {_place_text(('steps', source.step, 'output'), source.list_path)}"
        text += f", its {_place_text((), source.item_path)}" if source.item_path else ""
        return (
            text
            if source.where is None
            else f"{text}, where {_place_text((), source.where.path)} is {source.where.text}"
        )
    if isinstance(source, LookUp):
        named = f"whose {_place_text((), source.by)} the caller gives" if source.by else "that the caller names"
        whole = _place_text(("steps", source.step, "output"), source.path)
        return f"the one of {whole} {named}" + (
            f", its {_place_text((), source.item_path)}" if source.item_path else ""
        )
    if isinstance(source, Joined):
        return " + ".join(
            orjson.dumps(part).decode() if isinstance(part, str) else source_text(part) for part in source.parts
        )
    if isinstance(source, Assembled):
        return "; ".join(f"{key}: {source_text(member)}" for key, member in source.members)
    if source.part == "input":
        text = reference_text(("parameters", *source.path))
    else:
        text = _place_text(("steps", source.step, "output"), source.path)
    return text if source.transform is None else f"{text} through {source.transform.kind}"


def evidence_json(evidence: SourceEvidence) -> dict[str, Any]:
    """Return a choice with its samples for and against, whose they are, and what else would have explained them."""
    body: dict[str, Any] = {
        "source": source_text(evidence.source),
        "for": evidence.explained,
        "against": evidence.samples - evidence.explained,
        "distinct_values": evidence.distinct,
        **evidence.backing.as_json(),
        "also": [{"source": source_text(source), "for": count} for source, count in evidence.rivals],
    }
    if _extracts(evidence.source):
        body["examples"] = [text[:120] for text in evidence.examples]
    return body


def _escaped(source: Joined) -> list[str | FromStep | EachOf]:
    return [literal(part) if isinstance(part, str) else part for part in source.parts]


def _all_of(source: AllOf, name: str, wire: Wire) -> Any:
    over = wire(source.step, list_name(source.list_path), list_mapping(source))
    item = path_mapping(("item",), source.item_path)
    if source.before:
        head = [literal(part) if isinstance(part, str) else source_mapping(part, name, wire) for part in source.before]
        item = {"$join": [*head, item]}
    return {"$map": {"over": over, "to": item}}


def _from_step(source: FromStep, name: str, wire: Wire) -> Any:
    if source.part == "input":
        mapping: Any = reference_text(("parameters", *source.path))
    else:
        mapping = wire(source.step, name, path_mapping(("steps", source.step, "output"), source.path))
    return mapping if source.transform is None else source.transform.around(mapping)


def _where(of: Any, where: ElementFilter) -> Any:
    return {"$where": {"of": of, "at": reference_text(where.path), "equals": literal(orjson.loads(where.text))}}


def _place_text(start: tuple[str | int, ...], path: Path) -> str:
    """Return a path in words: `$.steps[0].output.text read as lines, [0]`."""
    pieces: list[list[str | int]] = [list(start)]
    kinds: list[str] = []
    for segment in path:
        if isinstance(segment, Read):
            kinds.append(segment.kind)
            pieces.append([])
        else:
            pieces[-1].append(segment)
    text = reference_text(pieces[0]) if start else reference_text(pieces[0])[1:].lstrip(".")
    for kind, piece in zip(kinds, pieces[1:], strict=True):
        text += f" read as {kind}"
        if piece:
            text += f", {reference_text(piece)[1:].lstrip('.')}"
    return text.strip(" ,")


def _extracts(source: Source) -> bool:
    """Return whether a source takes something out of a text, which an approver should see done."""
    if isinstance(source, FromStep):
        return source.transform is not None or any(isinstance(segment, Read) for segment in source.path)
    if isinstance(source, (EachOf, AllOf, FirstWhere)):
        return any(isinstance(segment, Read) for segment in (*source.list_path, *source.item_path))
    return isinstance(source, (Joined, Assembled))
