"""Parses text templates: the subset of Handlebars that has no code in it.

    {{name}} {{a.b}} {{a.[odd key]}}            a value, nothing where there is none; {{{a}}} and {{&a}} are the same
    {{#if a}} … {{else if b}} … {{else}} … {{/if}}     also #unless
    {{#each list}} … {{else}} … {{/each}}       {{this}}, {{@index}}, {{@key}}, {{@first}}, {{@last}}, {{../outer}}
    {{#each list as |item index|}}              names for the two
    {{#with a}} … {{/with}}, {{! comment }}, {{~ takes the white space around it ~}}, \\{{ stands for itself

A path is resolved to its scope while it is read: in this grammar that can be decided without any data, which is why a
template can say which variables it uses. There are no helpers, no partials and no expressions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn, cast

from twinraven.foundation.errors import InvalidExpression

MAX_BLOCK_DEPTH: Final = 64
MAX_PATH_SEGMENTS: Final = 64
MAX_TEMPLATE_TAGS: Final = 10_000

BlockKind = Literal["if", "unless", "each", "with"]

_KINDS: Final[tuple[BlockKind, ...]] = ("if", "unless", "each", "with")
_LOOP_DATA: Final = ("index", "key", "first", "last")
_NAME: Final = r"[^\s!\"#%&'()*+,./;<=>@\[\\\]^`{|}~]+"
_UP: Final = re.compile(r"(?:\.\./)*")
_SEGMENT: Final = re.compile(rf"\[([^\]]*)\]|({_NAME})")
_NAMES: Final = re.compile(rf"\s*({_NAME})(?:\s+({_NAME}))?\s*")
_LINE_END: Final = re.compile(r"[^\S\n]*(?:\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class Path:
    """A place in one of the scopes: `up` scopes out from where it stands, 0 being the innermost."""

    up: int
    segments: tuple[str, ...]
    kind: Literal["value", "data", "local"] = "value"
    """A value of the scope, what a loop knows of its turn, or a name that a block gave."""
    is_root: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A block that is rendered under a condition, for each element, or inside a value."""

    kind: BlockKind
    path: Path
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    names: tuple[str, ...] = ()

    @property
    def opens_scope(self) -> bool:
        return self.kind in ("each", "with")


Node = str | Path | Block


@dataclass(frozen=True, slots=True)
class _Tag:
    """What stands between two pairs of braces."""

    mark: str
    text: str
    position: int
    trims_before: bool = False
    trims_after: bool = False

    @property
    def may_stand_alone(self) -> bool:
        """Whether a line with nothing else in it disappears with the tag."""
        return self.mark in ("#", "/", "!", "else")


@dataclass(slots=True)
class _Open:
    """A block whose end has not come yet."""

    kind: BlockKind
    path: Path
    names: tuple[str, ...]
    position: int
    is_chained: bool = False
    body: list[Node] = field(default_factory=list["Node"])
    otherwise: list[Node] | None = None

    @property
    def nodes(self) -> list[Node]:
        return self.body if self.otherwise is None else self.otherwise

    @property
    def opens_scope(self) -> bool:
        """Whether what is read now stands in the block's own scope; what stands behind `else` does not."""
        return self.kind in ("each", "with") and self.otherwise is None

    def closed(self) -> Block:
        return Block(self.kind, self.path, tuple(self.body), tuple(self.otherwise or ()), self.names)


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Parse the template as a tree, or InvalidExpression."""
    return _Reader(text).read()


class _Reader:
    """Reads one template from left to right, with the open blocks on a stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._top: list[Node] = []
        self._open: list[_Open] = []

    def read(self) -> tuple[Node, ...]:
        for token in _trim(_tokens(self._text)):
            if isinstance(token, str):
                self._nodes.append(token)
            elif token.mark == "":
                self._nodes.append(self._path(token.text.strip(), token.position))
            elif token.mark == "#":
                self._begin(token.text, token.position)
            elif token.mark == "else":
                self._turn(token)
            elif token.mark == "/":
                self._end(token)
        if self._open:
            last = self._open[-1]
            self._fail(f"has no {{{{/{last.kind}}}}} for its {{{{#{last.kind}}}}}", last.position)
        return tuple(self._top)

    @property
    def _nodes(self) -> list[Node]:
        return self._open[-1].nodes if self._open else self._top

    def _begin(self, text: str, position: int, *, is_chained: bool = False) -> None:
        word, subject, names = _split_block(text)
        kind: BlockKind | None = next((known for known in _KINDS if known == word), None)
        if kind is None:
            self._fail(f"has an unknown block {word[:60]!r}; there are #if, #unless, #each and #with", position)
        if not subject:
            self._fail(f"has a #{kind} that does not say of what", position)
        if len(self._open) >= MAX_BLOCK_DEPTH:
            self._fail(f"has blocks nested deeper than {MAX_BLOCK_DEPTH}", position)
        if names and kind not in ("each", "with"):
            self._fail(f"names something in an #{kind}, which has nothing to name", position)
        self._open.append(_Open(kind, self._path(subject, position), names, position, is_chained))

    def _turn(self, tag: _Tag) -> None:
        if not self._open:
            self._fail("has an {{else}} outside every block", tag.position)
        if self._open[-1].otherwise is not None:
            self._fail("has a second {{else}} in one block", tag.position)
        self._open[-1].otherwise = []
        if tag.text:
            self._begin(tag.text, tag.position, is_chained=True)

    def _end(self, tag: _Tag) -> None:
        kind = tag.text.strip()
        while self._open and self._open[-1].is_chained:
            self._close()
        if not self._open or self._open[-1].kind != kind:
            wanted = f"; {{{{/{self._open[-1].kind}}}}} is due" if self._open else ""
            self._fail(f"has a {{{{/{kind}}}}} that ends nothing{wanted}", tag.position)
        self._close()

    def _close(self) -> None:
        done = self._open.pop()
        self._nodes.append(done.closed())

    def _path(self, text: str, position: int) -> Path:
        """Return a path and where it leads from here."""
        if text.startswith("@"):
            return self._data_path(text[1:], position)
        scopes = [block for block in self._open if block.opens_scope]
        leading = _UP.match(text)
        assert leading is not None
        up = len(leading[0]) // 3
        rest = text[leading.end() :]
        if rest == "..":
            up, rest = up + 1, "this"
        if up > len(scopes):
            self._fail(f"goes further out with {text!r} than there are blocks around it", position)
        segments, is_bare = self._segments(rest, text, position)
        if is_bare and up == 0:
            for distance, block in enumerate(reversed(scopes)):
                if segments[0] in block.names:
                    return Path(distance, segments, "local")
        is_root = up == len(scopes)
        if is_root and not segments:
            self._fail(f"has {text!r} where it means all variables at once; name one", position)
        return Path(up, segments, is_root=is_root)

    def _data_path(self, text: str, position: int) -> Path:
        if text.startswith("root."):
            segments, _ = self._segments(text.removeprefix("root."), text, position)
            return Path(sum(block.opens_scope for block in self._open), segments, is_root=True)
        loops = [block.kind == "each" for block in reversed(self._open) if block.opens_scope]
        if text not in _LOOP_DATA:
            self._fail(f"has an unknown @{text}; there are @index, @key, @first, @last and @root.name", position)
        if True not in loops:
            self._fail(f"has @{text} outside every #each", position)
        return Path(loops.index(True), (text,), "data")

    def _segments(self, text: str, whole: str, position: int) -> tuple[tuple[str, ...], bool]:
        """Return the steps of a path, and whether it began with a name and not with `this`."""
        rest, is_bare = text, True
        for prefix in ("this.", "this/", "./"):
            if text.startswith(prefix):
                rest, is_bare = text.removeprefix(prefix), False
        if text in ("this", ".", ""):
            if not text and whole == "":
                self._fail("has braces with nothing in them", position)
            return (), False
        segments: list[str] = []
        at = 0
        while found := _SEGMENT.match(rest, at):
            segments.append(found[2] if found[1] is None else found[1])
            at = found.end()
            if at == len(rest):
                break
            if rest[at] != ".":
                self._refuse_expression(whole, position)
            at += 1
        else:
            self._refuse_expression(whole, position)
        if len(segments) > MAX_PATH_SEGMENTS:
            self._fail(f"has a path of more than {MAX_PATH_SEGMENTS} steps", position)
        return tuple(segments), is_bare

    def _refuse_expression(self, text: str, position: int) -> NoReturn:
        if text.startswith(">"):
            self._fail("asks for a partial, and there are none", position)
        hint = "only names and paths can stand here; write \\{{ for braces that mean themselves"
        self._fail(f"has {text[:60]!r} in braces; {hint}", position)

    def _fail(self, problem: str, position: int) -> NoReturn:
        raise invalid_template(problem, self._text, position)


def _split_block(text: str) -> tuple[str, str, tuple[str, ...]]:
    """Split `each orders as |order index|` into its kind, its path and the names it gives, in linear time."""
    word, *rest = text.split(None, 1) or [""]
    subject = rest[0].rstrip() if rest else ""
    before, bar, given = subject[:-1].rpartition("|") if subject.endswith("|") else (subject, "", "")
    before = before.rstrip()
    found = _NAMES.fullmatch(given) if bar and before.endswith("as") and before[-3:-2].isspace() else None
    if found is None:
        return word, subject, ()
    names = cast("tuple[str | None, ...]", found.groups())
    return word, before[:-2].rstrip(), tuple(name for name in names if name)


def invalid_template(problem: str, text: str, position: int) -> InvalidExpression:
    """Return the one error of this grammar: what is wrong, and in which line."""
    line = text.count("\n", 0, position) + 1
    return InvalidExpression(f"template {problem} (line {line})", line=line, position=position)


def _tokens(text: str) -> list[str | _Tag]:
    """Texts and tags in turn; an escaped tag is text."""
    tokens: list[str | _Tag] = []
    literal: list[str] = []
    copied = 0
    start = text.find("{{")
    while start >= 0:
        if text.startswith("\\", start - 1) and start > copied:
            literal.append(text[copied : start - 1])
            copied = start
            if not text.startswith("\\", start - 2) or start - 2 < 0:
                literal.append("{{")
                copied = start + 2
                start = text.find("{{", copied)
                continue
        literal.append(text[copied:start])
        tokens.append("".join(literal))
        literal.clear()
        if len(tokens) >= 2 * MAX_TEMPLATE_TAGS:
            raise invalid_template(f"has more than {MAX_TEMPLATE_TAGS} tags", text, start)
        tag, copied = _read_tag(text, start)
        tokens.append(tag)
        start = text.find("{{", copied)
    tokens.append("".join([*literal, text[copied:]]))
    return tokens


def _read_tag(text: str, start: int) -> tuple[_Tag, int]:
    """Read the tag that begins at `start`, and where it ends."""
    inside = start + 2
    before = text.startswith("~", inside)
    inside += before
    opening, closing = "", "}}"
    for mark, end_mark in (("!--", "--"), ("{", "}")):
        if text.startswith(mark, inside):
            opening, closing = mark, end_mark
    end = _find_end(text, inside + len(opening), closing)
    if end is None:
        raise invalid_template(f"has no {closing if closing == '}}' else closing + '}}'} for its braces", text, start)
    content, behind, after = end
    return _to_tag(text[inside + len(opening) : content], opening, start, (before, after)), behind


def _find_end(text: str, start: int, closing: str) -> tuple[int, int, bool] | None:
    """Return where a tag's content ends, where the tag does, and whether it takes the white space behind it."""
    if closing == "}}":
        end = text.find("}}", start)
        if end < 0:
            return None
        after = end > start and text[end - 1] == "~"
        return end - after, end + 2, after
    found = re.compile(rf"{re.escape(closing)}(~?)\}}\}}").search(text, start)
    return None if found is None else (found.start(), found.end(), bool(found[1]))


def _to_tag(content: str, opening: str, position: int, trims: tuple[bool, bool]) -> _Tag:
    if opening == "!--" or (not opening and content.startswith("!")):
        return _Tag("!", "", position, *trims)
    if opening == "{" or content.startswith("&"):
        return _Tag("", content.removeprefix("&"), position, *trims)
    if content.startswith(("#", "/")):
        return _Tag(content[0], content[1:], position, *trims)
    words = content.split(None, 1)
    if words in (["else"], ["^"]):
        return _Tag("else", "", position, *trims)
    if len(words) == 2 and words[0] == "else":
        return _Tag("else", words[1], position, *trims)
    return _Tag("", content, position, *trims)


def _trim(tokens: Sequence[str | _Tag]) -> list[str | _Tag]:
    """Take away the white space that tags take with them: around a tilde, and the line of a tag that stands alone.

    Texts stand at even places and tags at odd ones.
    """
    alone = {place: _stands_alone(tokens, place) for place in range(1, len(tokens), 2)}
    trimmed: list[str | _Tag] = []
    for place, token in enumerate(tokens):
        if not isinstance(token, str):
            trimmed.append(token)
            continue
        before, after = tokens[place - 1] if place else None, tokens[place + 1] if place + 1 < len(tokens) else None
        text = token
        if isinstance(before, _Tag):
            text = text.lstrip() if before.trims_after else _without_line_end(text) if alone[place - 1] else text
        if isinstance(after, _Tag):
            text = text.rstrip() if after.trims_before else text.rstrip(" \t") if alone[place + 1] else text
        if text:
            trimmed.append(text)
    return trimmed


def _stands_alone(tokens: Sequence[str | _Tag], place: int) -> bool:
    tag, before, after = tokens[place], cast("str", tokens[place - 1]), cast("str", tokens[place + 1])
    if not isinstance(tag, _Tag) or not tag.may_stand_alone:
        return False
    line_begins = "\n" in before or place == 1
    line_ends = "\n" in after or place + 2 == len(tokens)
    is_blank = not before.rpartition("\n")[2].strip() and not after.partition("\n")[0].strip()
    return line_begins and line_ends and is_blank


def _without_line_end(text: str) -> str:
    found = _LINE_END.match(text)
    return text if found is None else text[found.end() :]
