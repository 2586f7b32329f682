"""Formats Python source: an expression on one line where it fits, otherwise one element per line.

An export is meant to be read, so it looks as a formatter would leave it. Every text from a definition passes through
`quoted` or `docstring` on its way into the code; nothing else puts foreign characters there.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

WIDTH: Final = 120


@dataclass(frozen=True, slots=True)
class Bracketed:
    """A bracketed expression; `opening` is everything up to and with the bracket."""

    opening: str
    items: tuple[Node, ...]
    closing: str
    comma: str = ","
    """What stands between its items; nothing, where they are the clauses of one expression."""


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A string literal, and the words before it on its line."""

    text: str
    before: str = ""


Node: TypeAlias = str | StringLiteral | Bracketed


def flat(node: Node) -> str:
    """Return the expression on one line."""
    if isinstance(node, str):
        return node
    if isinstance(node, StringLiteral):
        return node.before + quoted(node.text)
    return node.opening + f"{node.comma} ".join(map(flat, node.items)) + node.closing


def lay_out(node: Node, indent: int, *, suffix: str = "") -> list[str]:
    """Return the expression as lines."""
    margin = " " * indent
    line = f"{margin}{flat(node)}{suffix}"
    if isinstance(node, str) or len(line) <= WIDTH:
        return [line]
    group = _in_pieces(node, WIDTH - indent - 4) if isinstance(node, StringLiteral) else node
    if not group.items:
        return [line]
    lines = [margin + group.opening]
    for item in group.items:
        lines += lay_out(item, indent + 4, suffix=group.comma)
    return [*lines, f"{margin}{group.closing}{suffix}"]


def _in_pieces(literal: StringLiteral, width: int) -> Bracketed:
    """Return a literal as several that Python joins, cut after spaces where there are any."""
    pieces: list[str] = [""]
    for word in re.findall(r"\S*\s|\S+", literal.text):
        for part in [word] if len(quoted(word)) <= width else list(word):
            if len(quoted(pieces[-1] + part)) > width:
                pieces.append("")
            pieces[-1] += part
    return Bracketed(f"{literal.before}(", tuple(map(quoted, pieces)), ")", "")


def prefixed(prefix: str, node: Node) -> Node:
    """Return the expression with words before it."""
    if isinstance(node, Bracketed):
        return replace(node, opening=prefix + node.opening)
    return prefix + node if isinstance(node, str) else replace(node, before=prefix + node.before)


def call_of(function: str, *arguments: Node) -> Bracketed:
    return Bracketed(f"{function}(", arguments, ")")


def object_of(members: Iterable[tuple[str, Node]]) -> Bracketed:
    return Bracketed("{", tuple(prefixed(f"{quoted(name)}: ", value) for name, value in members), "}")


def literal_of(value: Any) -> Node:
    """Return a JSON value as Python writes it."""
    if isinstance(value, str):
        return StringLiteral(value)
    if isinstance(value, list):
        return Bracketed("[", tuple(literal_of(item) for item in cast("list[Any]", value)), "]")
    if isinstance(value, dict):
        return object_of((name, literal_of(member)) for name, member in cast("Mapping[str, Any]", value).items())
    return repr(value)


def quoted(text: str) -> str:
    """Return a string literal that holds exactly this text, whatever is in it."""
    written = repr(text)
    return written if '"' in text else f'"{written[1:-1]}"'


def docstring(text: str, indent: int) -> list[str]:
    """Return a docstring of this text, paragraphs kept, that nothing in the text can end early."""
    margin = " " * indent
    paragraphs = [" ".join(map(_harmless, paragraph.split())) for paragraph in text.split("\n\n")]
    wrapped = [
        textwrap.wrap(paragraph, WIDTH - indent - 3, break_long_words=False, break_on_hyphens=False)
        for paragraph in paragraphs
        if paragraph
    ]
    lines = [line for paragraph in wrapped for line in ("", *paragraph)][1:]
    first, *rest = lines
    body = [f'{margin}"""{first}', *(f"{margin}{line}" if line else "" for line in rest)]
    return [*body, f'{margin}"""'] if rest else [f'{body[0]}"""']


def _harmless(word: str) -> str:
    shown = word.replace("\\", "\\\\").replace('"', '\\"') if '"""' in word or word.endswith('"') else ""
    shown = shown or word.replace("\\", "\\\\")
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in shown)


def identifier(text: str, taken: Collection[str], *, otherwise: str) -> str:
    """Return a name in Python for something that is named otherwise; one that is taken gets a number."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60] or otherwise
    name = f"{otherwise}_{name}" if name[0].isdigit() else name
    name = f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
