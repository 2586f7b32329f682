"""Validates JSON Schema 2020-12: compiled once, defaults filled in, without fetching anything.

`compile_schema` gives an object that callers keep; asking again with an equal schema gives the same one. A schema may
name an older draft in `$schema` and is then judged by it. Messages name the place and the rule but not the value:
arguments can be secrets, and errors are recorded. jsonschema-rs does the work and is imported on first use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.check_budget import CheckBudget, extent_of
from twinraven.foundation.errors import InvalidInput, InvalidSchema
from twinraven.foundation.pattern_cost import MAX_BACKTRACKS
from twinraven.foundation.schema_defaults import Defaults
from twinraven.foundation.schema_document import SchemaCost, SchemaDocument, SubSchema, written_references
from twinraven.foundation.schema_inference import infer_schema, json_type

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

__all__ = ["MAX_REPORTED_ERRORS", "MAX_SCHEMA_BYTES", "Schema", "compile_schema", "infer_schema"]

MAX_SCHEMA_BYTES: Final = 1_000_000
MAX_REPORTED_ERRORS: Final = 5

_MASK = "the value"
_MAX_TEXT = 300
# The validator makes every error, on every branch, before it shows the first; each takes ten microseconds.
_MAX_ERRORS_FOR_ONE = 50_000
_MAX_ERRORS_FOR_ALL = 20_000
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
# Of these the message alone does not say what would have been right.
_UNEXPLAINED = frozenset({"anyOf", "oneOf", "contains"})
_TYPE_RULE = "is none of array, boolean, integer, null, number, object, string, nor a list of them"


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A compiled schema; `source` is what it was compiled from and must not be changed."""

    source: Any
    _validator: Validator = field(repr=False)
    _defaults: Defaults | None = field(repr=False)
    _extent: SchemaCost = field(repr=False)
    _budget: CheckBudget | None = field(repr=False)

    def check(self, value: Any, *, field: str = "params") -> None:
        """Raise InvalidInput unless the value fits; the error says where, what and what else."""
        candidate, length = _as_checkable(value, field)
        if self._budget is not None and length > self._budget.free_bytes:
            self._refuse_costly(self._budget, candidate, field)
        try:
            if not self._validator.is_valid(candidate):
                raise self._invalid(candidate, field)
        except ValueError as error:
            raise InvalidInput(f"{field} is not a JSON value: {error}", field=field) from None

    def fill(self, value: Any) -> Any:
        """Return the value with absent defaults put in.

        The original stays as it is, and is returned if nothing is absent.
        """
        return value if self._defaults is None else self._defaults.fill(value)

    def _invalid(self, value: Any, field: str) -> InvalidInput:
        values, depth, _ = extent_of(value)
        if self._extent.explanation_cost(values, depth) > _MAX_ERRORS_FOR_ONE:
            reason = "where was not searched, because the schema has too many branches for a value so large or deep"
            return InvalidInput(f"{field} does not fit its schema; {reason}", field=field, errors=[])
        errors = [self._describe(error, field) for error in self._errors(value, values)[:MAX_REPORTED_ERRORS]]
        first = errors[0]
        message = f"{first['path']}: {first['problem']}"
        if first["keyword"] in _UNEXPLAINED:
            message += f"; expected {first['expected']}"
        if len(errors) > 1:
            message += f" (and {len(errors) - 1} more)"
        return InvalidInput(message, field=first["path"], errors=errors)

    def _refuse_costly(self, budget: CheckBudget, value: Any, field: str) -> None:
        """Raise where the schema would go through a large value too often, or match too long texts."""
        excess = budget.exceeded(value)
        if excess is None:
            return
        extent, where = excess.extent, _path_text(field, excess.path)
        if excess.longest is not None:
            raise InvalidInput(f"{where}: this string is longer than {excess.longest} characters", field=where)
        raise InvalidInput(
            f"{where} has {extent.values} values in {extent.depth} levels and {sum(extent.texts)} characters, more "
            "than can be checked with uniqueItems, unevaluatedItems, unevaluatedProperties, multipleOf, an enum of "
            "objects, many branches or the patterns of its schema; send less, or make the schema simpler",
            field=where,
        )

    def _errors(self, value: Any, values: int) -> list[ValidationError]:
        from jsonschema_rs import ValidationError

        if (self._extent.work + self._extent.mentions) * values <= _MAX_ERRORS_FOR_ALL:
            return list(self._validator.iter_errors(value))
        try:
            self._validator.validate(value)
        except ValidationError as error:
            return [error]
        raise AssertionError("a value was refused and accepted by the same validator")

    def _describe(self, error: ValidationError, field: str) -> dict[str, str]:
        problem = error.message
        if problem.startswith(_MASK):
            problem = f"this {json_type(error.instance)}{problem[len(_MASK) :]}"
        return {
            "path": _path_text(field, error.instance_path),
            "problem": _shorten(problem),
            "keyword": error.kind.name,
            "expected": self._expected(error),
        }

    def _expected(self, error: ValidationError) -> str:
        rule = self.source
        for step in error.schema_path:
            if isinstance(rule, dict) and isinstance(step, str):
                rule = cast("SubSchema", rule).get(step)
            elif isinstance(rule, list) and isinstance(step, int) and step < len(cast("list[Any]", rule)):
                rule = cast("list[Any]", rule)[step]
            else:
                return error.kind.name
        return _shorten(f"{error.schema_path[-1] if error.schema_path else 'schema'} {canonical_json(rule).decode()}")


def compile_schema(schema: Any) -> Schema:
    """Compile the compiled form of a JSON Schema (an object or a boolean)."""
    if _is_larger(schema):
        raise InvalidSchema(f"schema is larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        text = canonical_json(schema)
    except InvalidInput as error:
        raise InvalidSchema(f"schema is not JSON: {error.message}") from None
    return _compile(text)


def _is_larger(schema: Any) -> bool:
    """Return whether a schema is so large that writing it out to compare it would take seconds."""
    try:
        return len(orjson.dumps(schema, option=_STRICT)) > 2 * MAX_SCHEMA_BYTES
    except TypeError:
        return extent_of(schema).values > MAX_SCHEMA_BYTES // 2


@lru_cache(maxsize=1024)
def _compile(text: bytes) -> Schema:
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidSchema(f"schema is larger than {MAX_SCHEMA_BYTES} bytes")
    source = parse_json(text, field="schema")
    if isinstance(source, bool):
        return Schema(source, _build_validator(source), None, SchemaCost(work=1), None)
    if not isinstance(source, dict):
        raise InvalidSchema(f"schema is {_with_article(json_type(source))}; it must be an object, true or false")
    document = SchemaDocument(cast("SubSchema", source))
    validator = _build_validator(source)
    return Schema(source, validator, Defaults(document), document.cost, CheckBudget(document))


def _build_validator(source: Any) -> Validator:
    import jsonschema_rs

    limits = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS)
    try:
        return jsonschema_rs.validator_for(
            source, offline=True, validate_formats=True, mask=_MASK, pattern_options=limits
        )
    except jsonschema_rs.ValidationError as error:
        raise _invalid_schema(source, error) from None
    except ValueError as error:
        raise InvalidSchema(f"schema cannot be compiled: {error}") from None


def _invalid_schema(source: Any, error: ValidationError) -> InvalidSchema:
    from jsonschema_rs import ValidationErrorKind

    if not isinstance(error.kind, ValidationErrorKind.Referencing):
        where = _path_text("schema", error.instance_path)
        found = _shorten(canonical_json(error.instance).decode())
        rule = _TYPE_RULE if error.instance_path[-1:] == ["type"] else error.message.removeprefix(f"{_MASK} ")
        return InvalidSchema(f"{where}: {found} {_shorten(rule)}", field=where)
    for reference, path in written_references(source):
        if reference.removeprefix("#") in error.message:
            where = _path_text("schema", path)
            fault = "points at nothing" if reference.startswith("#") else "points outside the schema"
            return InvalidSchema(f"{where}: {reference!r} {fault}; use a local one such as #/$defs/name", field=where)
    return InvalidSchema(f"schema: {_shorten(error.message)}", field="schema")


def _as_checkable(value: Any, field: str) -> tuple[Any, int]:
    """Return a value that the validator may see, and the length of its text.

    Beyond orjson's limits (depth, 64 bits) the validator would crash.
    """
    try:
        return value, len(orjson.dumps(value, option=_STRICT))
    except TypeError:
        pass
    try:
        text = canonical_json(value)
        return parse_json(text, field=field), len(text)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from None


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _path_text(start: str, path: list[str | int]) -> str:
    """Return a place as people write it: params.items[0]["a key"]."""
    steps = [f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{_quote(step)}]" for step in path]
    return _shorten(start + "".join(steps))


def _quote(step: str | int) -> str:
    return canonical_json(step).decode()


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
