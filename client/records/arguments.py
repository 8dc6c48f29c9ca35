"""Checks what an application passes to a call, and raises errors of one sentence.

Without the check a mistake would surface later: in a task of the client, which it ends, or in a
request that cannot be encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import TypeVar

from ottla.client.records.committed import Committed
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused

Value = TypeVar("Value")

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
TOPIC_CHARACTERS_MAX = 249
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")


def check_topic(name: object) -> None:
    """Raise TypeError unless it is a text, and RequestRefused for a topic name that no broker
    accepts."""
    check_text("a topic", name)
    assert isinstance(name, str)
    if _TOPIC.fullmatch(name) and name not in (".", "..") and len(name) <= TOPIC_CHARACTERS_MAX:
        return
    raise RequestRefused(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"no topic has that name: it has 1 to {TOPIC_CHARACTERS_MAX} of A-Z, a-z, 0-9, '.', '_' "
        "and '-', and more than dots",
        topic=name if len(name) <= TOPIC_CHARACTERS_MAX else f"{name[:20]}...",
    )


def check_text(what: str, name: object) -> None:
    """Raise TypeError unless ``name`` is a text."""
    if not isinstance(name, str):
        raise TypeError(f"{what} is called by a text, not {name!r}")


def texts(what: str, names: object) -> list[str]:
    """A list of names from any iterable. Raises TypeError, also for a single text: it would iterate
    over its letters, and topics of one letter may exist."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise TypeError(f"{what} are given as a list of texts, not {names!r}")
    found = list(names)
    for name in found:
        check_text(f"a {what.removesuffix('s')}", name)
    return found


def is_whole(value: object) -> bool:
    """Whether it is a whole number. True and False are not, although Python's bool is an int."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def whole(what: str, value: object, least: int = 0, most: int = INT64_MAX) -> int:
    """The value as an int between ``least`` and ``most``. Raises TypeError or ValueError."""
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{what} is a whole number, not {value!r}")
        value = int(value)
    if value < least:
        raise ValueError(f"{what} is {least} or more, not {value}")
    if value > most:
        raise ValueError(f"{what} is {most} at most, not {value}")
    return value


def numbers(what: str, values: object) -> list[int]:
    """A list of distinct whole numbers from any iterable. Raises TypeError or ValueError."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{what} are given as a list of numbers, not {values!r}")
    return list(dict.fromkeys(whole(f"each of {what}", value) for value in values))


def check_wait(what: str, value: object) -> None:
    """Raise TypeError or ValueError unless it is a duration in milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float | Real):
        raise TypeError(f"{what} is a number of milliseconds, not {value!r}")
    if not float(value) >= 0:
        raise ValueError(f"{what} is 0 or more, not {value}")


def partition_of(partition: object) -> TopicPartition:
    """The partition, which may be given as a plain pair. Raises TypeError, ValueError or
    RequestRefused."""
    match partition:
        case (str() as topic, number) if is_whole(number):
            check_topic(topic)
            return TopicPartition(topic, whole("a partition's number", number, 0, INT32_MAX))
    raise TypeError(f"a partition is a topic and a number, not {partition!r}")


def partitions_of(partitions: object, *, is_each_once: bool = False) -> list[TopicPartition]:
    """Distinct partitions, in their order. Raises as ``partition_of``, and ValueError for a
    repeated partition with ``is_each_once``."""
    if isinstance(partitions, str | bytes | TopicPartition) or not isinstance(partitions, Iterable):
        raise TypeError(f"partitions are given as a list, not {partitions!r}")
    found: dict[TopicPartition, None] = {}
    for where in map(partition_of, partitions):
        if is_each_once and where in found:
            raise ValueError(f"{where} is named twice")
        found[where] = None
    return list(found)


def by_partition(
    what: str, values: Mapping[TopicPartition, Value]
) -> Mapping[TopicPartition, Value]:
    """The values by checked partition. Raises as ``partition_of``."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} are given as a dict by partition, not {values!r}")
    return {partition_of(where): value for where, value in values.items()}


def positions_of(
    what: str, offsets: Mapping[TopicPartition, int | Committed]
) -> dict[TopicPartition, Committed]:
    """The positions to commit, by partition. Raises as ``partition_of``, and TypeError or
    ValueError for an invalid position."""
    return {where: _position(what, one) for where, one in by_partition(what, offsets).items()}


def _position(what: str, given: int | Committed) -> Committed:
    one = f"an offset {what.removeprefix('offsets ')}"
    if not isinstance(given, Committed):
        return Committed(whole(one, given))
    whole(one, given.offset)
    whole("a leader epoch", given.leader_epoch, -1, INT32_MAX)
    beside: object = given.metadata
    if not isinstance(beside, str):
        raise TypeError(f"what is stored with an offset is a text, not {beside!r}")
    return given
