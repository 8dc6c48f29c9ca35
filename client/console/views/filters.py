"""Which records to show: by key, value, header, or a comparison inside of a JSON value. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ottla.client.console.views.asked import BadRequest
from ottla.client.console.views.formats import as_json
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.client.console.views.asked import Question
    from ottla.protocol.records.record import Record

STEPS_MAX = 32
OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "contains")
_STEP = re.compile(r'\.?([A-Za-z_][\w-]*)|\.(\d+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')
_REST = re.compile(r"\s*(==|!=|<=|>=|<|>|contains\b)\s*(.+)", re.DOTALL)


class Condition(NamedTuple):
    """A place in a JSON value, and what has to be there; any value if ``operator`` is empty."""

    steps: tuple[str | int, ...]
    operator: str = ""
    operand: object = None

    def holds(self, value: object) -> bool:
        """Whether the JSON value has such a place, and it compares as wanted. Values of two
        kinds are unequal, and neither is the larger."""
        for step in self.steps:
            if isinstance(value, dict) and str(step) in value:
                value = value[str(step)]
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return False
        return _compares(value, self.operator, self.operand)


def _compares(value: object, operator: str, operand: object) -> bool:
    if operator == "":
        return True
    if operator == "contains":
        if isinstance(value, list):
            return any(_compares(one, "==", operand) for one in value)
        return isinstance(value, str) and str(operand) in value
    alike = isinstance(value, bool) == isinstance(operand, bool)
    if operator in ("==", "!="):
        return (alike and value == operand) == (operator == "==")
    left: Any = value
    right: Any = operand
    are_texts = isinstance(left, str) and isinstance(right, str)
    are_numbers = alike and isinstance(left, int | float) and isinstance(right, int | float)
    if not are_texts and not are_numbers:
        return False
    order = (left > right) - (left < right)
    holds: dict[str, bool] = {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}
    return holds[operator]


def read_condition(text: str) -> Condition:
    """Read ``$.user.id == 42``, ``items[0].name contains x`` or ``$.error``. Raises BadRequest."""
    rest = text.strip().removeprefix("$")
    steps: list[str | int] = []
    while (found := _STEP.match(rest)) is not None:
        if steps and rest[0] not in ".[":
            break
        name, number, index, quoted = found.groups()
        if name == "contains" and rest[0] != ".":
            break
        place = number or index
        if place is not None:
            steps.append(int(place[:9]))
        else:
            steps.append(name if name is not None else _unquoted(quoted))
        rest = rest[found.end() :]
    if len(steps) > STEPS_MAX:
        raise BadRequest(f"a place in a JSON value has at most {STEPS_MAX} steps")
    if not rest.strip():
        if not steps:
            raise BadRequest("a condition names a place, such as $.user.id == 42")
        return Condition(tuple(steps))
    compared = _REST.fullmatch(rest)
    if compared is None or not (steps or text.strip().startswith("$")):
        raise BadRequest(
            f"{text[:60]!r} is no condition; one looks like $.user.id == 42, and it compares with "
            f"{', '.join(OPERATORS)}"
        )
    operand_text = compared[2].strip()
    try:
        operand: object = json.loads(operand_text)
    except (ValueError, RecursionError):
        operand = operand_text
    return Condition(tuple(steps), compared[1], operand)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        raise BadRequest(f"{text[:40]!r} is no text of JSON") from None


class RecordFilter(NamedTuple):
    """What a record needs to be shown; an empty part lets every record pass."""

    key: bytes = b""
    value: bytes = b""
    header_name: str = ""
    header_value: bytes | None = None
    condition: Condition | None = None

    def passes(self, record: Record) -> bool:
        """Whether the record has all that is wanted."""
        if self.key and (record.key is None or self.key not in record.key):
            return False
        if self.value and (record.value is None or self.value not in record.value):
            return False
        if self.header_name and not any(
            name == self.header_name and self.header_value in (None, value)
            for name, value in record.headers
        ):
            return False
        if self.condition is None:
            return True
        try:
            return self.condition.holds(as_json(record.value))
        except ValueError:
            return False


EVERY_RECORD = RecordFilter()


def read_filter(question: Question) -> RecordFilter:
    """The filter that the parameters of a page name. Raises BadRequest."""
    name, equals, value = question.text("header").partition("=")
    where = question.text("where")
    return RecordFilter(
        question.text("key").encode(),
        question.text("value").encode(),
        name,
        value.encode() if equals else None,
        read_condition(where) if where else None,
    )
