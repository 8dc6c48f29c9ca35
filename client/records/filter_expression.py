"""Expressions over records, such as ``value.amount > 100 and key =~ '^eu-'``. Pure.

An expression is parsed once, by a grammar of its own, into functions of a record: no text is ever
run as a program. Words: ``topic``, ``partition``, ``offset``, ``timestamp`` (milliseconds since
1970), ``key``, ``value``, ``header.NAME``, and members of JSON: ``key.a.b``, ``value.items[0]``,
``value['odd name']``. A missing member is null. Comparisons: ``== != < <= > >=``, ``=~`` and
``!~`` (a regular expression is found, or not), ``contains``, ``startswith``, ``endswith``. They are
joined by ``and``, ``or``, ``not`` and parentheses. Values of different kinds are unequal, and
neither is less than the other.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from operator import contains, ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Protocol

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class FilteredRecord(Protocol):
    """What an expression reads of a record."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


Read = Callable[[FilteredRecord], Any]
Holds = Callable[[FilteredRecord], bool]

_TOKEN = re.compile(
    r"\s+|(?P<number>-?\d+(?:\.\d+)?)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_-]*)|(?P<sign>==|!=|<=|>=|=~|!~|[<>().\[\]])"
)
_NUMBERS = {"partition", "offset", "timestamp"}
_CONTENT = {"key", "value"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "contains": contains,
    "startswith": str.startswith,
    "endswith": str.endswith,
}
_PATTERNS = ("=~", "!~")
_NESTING_MAX = 50


class FilterLimits(NamedTuple):
    """What an expression may cost, for expressions that strangers write.

    Attributes:
        allows_patterns: Whether ``=~`` and ``!~`` are known. Some regular expressions take hours
            for a short text; True by default.
        characters_max: The longest expression; any length by default.
        json_bytes_max: Larger keys and values have no members; any size by default.
    """

    allows_patterns: bool = True
    characters_max: int = sys.maxsize
    json_bytes_max: int = sys.maxsize


UNLIMITED = FilterLimits()


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def record_filter(text: str, limits: FilterLimits = UNLIMITED) -> Holds:
    """The function that tells whether an expression holds for a record.

    Args:
        text: The expression.
        limits: What it may cost; no limits by default.

    Raises:
        ValueError: The text is no expression, or is beyond the limits.
    """
    if len(text) > limits.characters_max:
        raise ValueError(f"it has {len(text)} characters; {limits.characters_max} are allowed")
    return _Parser(text, limits).whole()


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{text[position]!r} at character {position + 1} has no meaning")
        if match.lastgroup is not None:
            found.append(_Token(match.lastgroup, match[0], position))
        position = match.end()
    found.append(_Token("end", "", len(text)))
    return found


class _Parser:
    """Recursive descent; every method returns a function of a record."""

    def __init__(self, text: str, limits: FilterLimits) -> None:
        self._tokens = _tokens(text)
        self._allows_patterns = limits.allows_patterns
        self._members = _Members(limits.json_bytes_max)
        self._next = 0
        self._depth = 0

    def whole(self) -> Holds:
        """The whole expression."""
        found = self._either()
        if self._token.kind != "end":
            raise self._mistake("and, or, or the end")
        return found

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *texts: str) -> str | None:
        """The next token if it is one of these words or signs."""
        token = self._token
        if token.kind not in ("word", "sign") or token.text not in texts:
            return None
        self._next += 1
        return token.text

    def _mistake(self, expected: str) -> ValueError:
        token = self._token
        found = repr(token.text) if token.text else "the end"
        return ValueError(f"expected {expected} at character {token.position + 1}, not {found}")

    def _either(self) -> Holds:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda record: any(one(record) for one in parts)

    def _both(self) -> Holds:
        parts = [self._negation()]
        while self._take("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else lambda record: all(one(record) for one in parts)

    def _negation(self) -> Holds:
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise ValueError(f"it is nested more than {_NESTING_MAX} deep")
        try:
            if self._take("not"):
                holds = self._negation()
                return lambda record: not holds(record)
            if self._take("("):
                inner = self._either()
                if not self._take(")"):
                    raise self._mistake("')'")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Holds:
        left = self._operand()
        sign = self._take("==", "!=", *_ORDERS, *_PATTERNS, *_TEXTS)
        if sign is None:
            return lambda record: bool(left(record))
        if sign in _PATTERNS:
            return self._pattern(left, is_wanted=sign == "=~")
        right = self._operand()
        if sign == "==":
            return lambda record: _are_equal(left(record), right(record))
        if sign == "!=":
            return lambda record: not _are_equal(left(record), right(record))
        if sign in _ORDERS:
            order = _ORDERS[sign]
            return lambda record: _is_ordered(order, left(record), right(record))
        relation = _TEXTS[sign]
        return lambda record: _is_related(relation, left(record), right(record))

    def _pattern(self, left: Read, *, is_wanted: bool) -> Holds:
        if not self._allows_patterns:
            raise ValueError(
                "regular expressions are not allowed here: use contains, startswith or endswith"
            )
        if self._token.kind != "text":
            raise self._mistake("a regular expression in quotes")
        try:
            search = re.compile(_unquoted(self._token.text, is_pattern=True)).search
        except re.error as error:
            raise ValueError(f"{self._token.text} is not a regular expression: {error}") from None
        self._next += 1

        def holds(record: FilteredRecord) -> bool:
            value = left(record)
            return isinstance(value, str) and (search(value) is not None) is is_wanted

        return holds

    def _operand(self) -> Read:
        token = self._token
        if token.kind in ("number", "text"):
            self._next += 1
            value = _number(token.text) if token.kind == "number" else _unquoted(token.text)
            return lambda _: value
        name = token.text
        if token.kind != "word":
            raise self._mistake("a field of the record, a number or a text in quotes")
        self._next += 1
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda _: constant
        if name in _NUMBERS or name == "topic":
            return lambda record: getattr(record, name)
        path = self._path()
        if name == "header" and len(path) == 1 and isinstance(path[0], str):
            header = path[0]
            return lambda record: _header(record, header)
        if name in _CONTENT:
            members = self._members
            if not path:
                return lambda record: _decoded(getattr(record, name))
            return lambda record: members.read(name, getattr(record, name), path)
        self._next -= 1
        raise ValueError(
            f"{name!r} is no field of a record: there are topic, partition, offset, timestamp, "
            "key, value and header.NAME; put text in quotes"
        )

    def _path(self) -> tuple[str | int, ...]:
        path: list[str | int] = []
        while sign := self._take(".", "["):
            token = self._token
            if sign == "." and token.kind == "word":
                path.append(token.text)
            elif sign == "[" and token.kind == "text":
                path.append(_unquoted(token.text))
            elif sign == "[" and token.kind == "number" and token.text.isdigit():
                path.append(int(token.text))
            else:
                raise self._mistake("the name or number of a member")
            self._next += 1
            if sign == "[" and not self._take("]"):
                raise self._mistake("']'")
        return tuple(path)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text[:40])


def _unquoted(text: str, *, is_pattern: bool = False) -> str:
    r"""The text between quotes; a backslash keeps the next character, and stays in a pattern."""
    return text[1:-1] if is_pattern else re.sub(r"\\(.)", r"\1", text[1:-1])


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _header(record: FilteredRecord, name: str) -> str | None:
    """The last header of that name."""
    return next((_decoded(value) for key, value in reversed(record.headers) if key == name), None)


class _Members:
    """Reads members of keys and values. An expression that names many of them parses each key and
    value once. Owned by one expression."""

    def __init__(self, json_bytes_max: int) -> None:
        self._json_bytes_max = json_bytes_max
        self._parsed: dict[str, tuple[bytes, Any]] = {}

    def read(self, name: str, data: bytes | None, path: tuple[str | int, ...]) -> Any:
        """The member at this path; None if there is none."""
        if data is None or len(data) > self._json_bytes_max:
            return None
        try:
            found = self._document(name, data)
            for step in path:
                if isinstance(step, str) is isinstance(found, list):
                    return None
                found = found[step]
        except (TypeError, KeyError, IndexError):
            return None
        return found

    def _document(self, name: str, data: bytes) -> Any:
        kept = self._parsed.get(name)
        # The pair holds the bytes, so their identity stays theirs.
        if kept is None or kept[0] is not data:
            try:
                kept = (data, json.loads(data))
            except (ValueError, RecursionError):
                kept = (data, None)
            self._parsed[name] = kept
        return kept[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_equal(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) is isinstance(right, bool)


def _is_ordered(order: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    are_alike = (_is_number(left) and _is_number(right)) or (
        isinstance(left, str) and isinstance(right, str)
    )
    return are_alike and order(left, right)


def _is_related(relation: Callable[[str, str], bool], left: Any, right: Any) -> bool:
    if relation is contains and isinstance(left, list):
        return right in left
    return isinstance(left, str) and isinstance(right, str) and relation(left, right)
