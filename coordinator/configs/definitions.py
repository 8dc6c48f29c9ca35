"""What a setting is: its type, what it may be, and whether it does anything here.

The settings themselves stand in the two tables beside this file. A definition turns the text of a
value into a Python value or into one sentence that says what is wrong with it. Values stay text
wherever they are kept or sent, as in Kafka.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from ottla.coordinator.configs.broker_principals import ID
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

AT_START = "start"
AT_START_NOTE = "A broker reads it from its configuration file when it starts, and nowhere else."
Value = bool | int | float | str | tuple[str, ...]


class ConfigType(IntEnum):
    """The ids of DescribeConfigs (KIP-569)."""

    BOOL = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """How a setting of a broker is changed while it runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    """Also for one broker alone."""


class BadValue(ValueError):
    """Carries one sentence about a value; the caller adds whose value it is."""


Check = Callable[[Value], None]


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting. ``default`` is text; None is Kafka's null.

    ``inherits``: the broker settings that a topic takes the value from, the strongest first."""

    name: str
    config_type: ConfigType
    default: str | None
    check: Check
    has_effect: bool
    # A change while the broker runs is stored and has no effect.
    is_read_at_start: bool
    update: Update
    inherits: tuple[str, ...]
    documentation: str

    @property
    def is_sensitive(self) -> bool:
        """Whether its value must never be shown."""
        return self.config_type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """The value that the text stands for. Raises BadValue."""
        value = _PARSERS[self.config_type](text)
        self.check(value)
        return value

    def problem(self, text: str) -> str | None:
        """One sentence on what is wrong with a value, None if nothing is."""
        try:
            self.parse(text)
        except BadValue as error:
            shown = "this value" if self.is_sensitive else repr(text)
            return f"{self.name} cannot be {shown}: {error}"
        return None


class _Range(NamedTuple):
    low: float
    high: float


_RANGES = {
    ConfigType.INT: _Range(-(2**31), 2**31 - 1),
    ConfigType.SHORT: _Range(-(2**15), 2**15 - 1),
    ConfigType.LONG: _Range(-(2**63), 2**63 - 1),
}
_MAX_TEXT = {
    **{config_type: str(limits.high) for config_type, limits in _RANGES.items()},
    ConfigType.DOUBLE: "1.7976931348623157E308",
}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def _parse_bool(text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise BadValue("it is either true or false")
    return value


def _integer_parser(config_type: ConfigType) -> Callable[[str], int]:
    low, high = _RANGES[config_type]

    def parse(text: str) -> int:
        # int() would also take underscores and digits of other scripts, which Kafka refuses.
        if not _INTEGER.fullmatch(text.strip()):
            raise BadValue("it is a whole number")
        value = int(text)
        if not low <= value <= high:
            raise BadValue(f"it lies between {low} and {high}")
        return value

    return parse


def _parse_double(text: str) -> float:
    if not _DECIMAL.fullmatch(text.strip()):
        raise BadValue("it is a number")
    return float(text)


def _parse_list(text: str) -> tuple[str, ...]:
    stripped = text.strip()
    return tuple(item.strip() for item in stripped.split(",")) if stripped else ()


_PARSERS: dict[ConfigType, Callable[[str], Value]] = {
    ConfigType.BOOL: _parse_bool,
    ConfigType.STRING: str.strip,
    ConfigType.INT: _integer_parser(ConfigType.INT),
    ConfigType.SHORT: _integer_parser(ConfigType.SHORT),
    ConfigType.LONG: _integer_parser(ConfigType.LONG),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: str.strip,
    ConfigType.PASSWORD: str,
}


def _anything(_value: Value) -> None:
    """The check of settings whose type is all there is to check."""


def _in_ranges(ranges: list[_Range], words: str) -> Check:
    def check(value: Value) -> None:
        assert isinstance(value, int | float)
        if not any(low <= value <= high for low, high in ranges):
            raise BadValue(f"legal values are {words}")

    return check


def _one_of(choices: tuple[str, ...]) -> Check:
    def check(value: Value) -> None:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in choices:
                words = ", ".join(choice or "'' (empty)" for choice in choices)
                raise BadValue(f"legal values are {words}")

    return check


_PORT_MAX = 65_535
_THROTTLED = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled_replicas(value: Value) -> None:
    """Kafka's form of a replica list: partition:broker pairs, or one star for all."""
    assert isinstance(value, tuple)
    if value not in ((), ("*",)) and not all(map(_THROTTLED.fullmatch, value)):
        raise BadValue("it is * or a list of partition:broker")


_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})", re.ASCII)


def _address(value: Value) -> None:
    """host:port, with brackets around an IPv6 address."""
    match = _ADDRESS.fullmatch(str(value))
    if match is None or int(match[1]) > _PORT_MAX:
        raise BadValue("it is host:port")


# A name may hold commas, as those of certificates do; a second principal after one is a mistake.
_PRINCIPAL = re.compile(r"[^:;,\s]+:(?!.*,\s*User:).+")


def _principals(value: Value) -> None:
    """Kafka's form of a list of principals: type:name, separated by semicolons."""
    items = [item.strip() for item in str(value).split(";")]
    if not all(_PRINCIPAL.fullmatch(item) for item in items if item):
        raise BadValue("it is a list of type:name, separated by semicolons")


def _broker_principals(value: Value) -> None:
    """The same, each with the place of the broker's id."""
    _principals(value)
    if not all(ID in item for item in str(value).split(";") if item.strip()):
        raise BadValue(f"each principal has {ID} in the place of the broker's id")


def _make_check(words: str) -> Check:
    """The check that a table's column describes: -, {a, b}, >=1, 1..9 or several of those."""
    if words == "-":
        return _anything
    if words == "principals":
        return _principals
    if words == "broker-principals":
        return _broker_principals
    if words == "address":
        return _address
    if words == "throttled":
        return _throttled_replicas
    if words.startswith("{"):
        return _one_of(tuple(words.strip("{}").split(", ")))
    ranges = []
    for part in words.split(", "):
        if part.startswith(">="):
            ranges.append(_Range(float(part[2:]), float("inf")))
        else:
            low, _, high = part.partition("..")
            ranges.append(_Range(float(low), float(high or low)))
    return _in_ranges(ranges, words)


def _make_default(text: str, config_type: ConfigType) -> str | None:
    if text == "null":
        return None
    if text == "MAX":
        return _MAX_TEXT[config_type]
    return text.strip('"')


def read_table(table: str) -> Iterator[tuple[list[str], str]]:
    """The rows of a settings table: its columns, and the sentence below them."""
    lines = table.strip().splitlines()
    assert len(lines) % 2 == 0, "every setting has a line of facts and a line of words"
    for facts, words in zip(lines[::2], lines[1::2], strict=True):
        yield facts.split(" | "), words.strip()


def define(columns: list[str], documentation: str, update: Update) -> Definition:
    """The definition in a row: name, type, default, legal values, effect, what it inherits."""
    name, type_name, default, legal, effect, inherits = columns
    config_type = ConfigType[type_name.upper()]
    return Definition(
        name=name,
        config_type=config_type,
        default=_make_default(default, config_type),
        check=_make_check(legal),
        has_effect={"yes": True, "no": False, AT_START: True}[effect],
        is_read_at_start=effect == AT_START,
        update=update,
        inherits=() if inherits == "-" else tuple(inherits.split(", ")),
        documentation=f"{documentation} {AT_START_NOTE}" if effect == AT_START else documentation,
    )


def render(value: Value) -> str:
    """The text of a value, as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: what may have been meant."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; the nearest known one is {close[0]}" if close else ""


def unknown(name: str, kind: str, known: Mapping[str, Definition]) -> str:
    """One sentence about an unknown setting name."""
    return f"there is no {kind} setting {name}{nearest(name, known)}"
