"""Judges the audit log: what clients were told, the brokers' files, and the topic. Pure.

A client that was refused, or that changed a token, knows of one decision of one broker. The file of
that broker has it once. The topic has the lines of each process in their order, once or, after a
repeated send, again; what it lacks was still in the broker's memory when its process ended.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Decision(NamedTuple):
    """What a broker has decided, by the fields of its line. Each test uses a resource once."""

    broker: int
    event: str
    operation: str
    resource: str


@dataclass(slots=True)
class AuditEvidence:
    """Filled while the world runs.

    ``told``: decisions that an answer has told a client. ``tried``: what was asked for once, and of
    which the answer may have been lost: resources by operation. ``files``: lines by broker, in
    order. ``topic``: lines of the topic, in order. ``waiting``: lines that waited for the topic
    when their process ended.
    """

    told: list[Decision] = field(default_factory=list)
    tried: set[tuple[str, str]] = field(default_factory=set)
    files: dict[int, list[str]] = field(default_factory=dict)
    topic: list[str] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)

    def violations(self) -> list[str]:
        """Every broken promise."""
        return [
            *self._decisions(),
            *self._sequences(),
            *self._order_in_topic(),
            *self._lacking_in_topic(),
        ]

    def _decisions(self) -> Iterator[str]:
        found: Counter[Decision] = Counter()
        for broker, lines in self.files.items():
            for line in lines:
                fields = json.loads(line)
                what = fields.get("operation", ""), fields.get("resource", "")
                if what in self.tried:
                    found[Decision(broker, fields["event"], *what)] += 1
        for decision in self.told:
            if found[decision] != 1:
                yield f"audit: {decision} has {found[decision]} lines in its broker's file"
        for decision, count in found.items():
            if count > 1 and decision not in self.told:
                yield f"audit: {decision} has {count} lines, and was asked for once"

    def _sequences(self) -> Iterator[str]:
        for broker, lines in self.files.items():
            before = 0
            for line in lines:
                number = json.loads(line)["sequence"]
                # A new process begins at 1.
                if number not in (before + 1, 1):
                    yield f"audit: the file of broker {broker} goes from {before} to {number}"
                before = number

    def _order_in_topic(self) -> Iterator[str]:
        places = _places(self.files)
        last: dict[tuple[int, int], int] = {}
        seen: set[str] = set()
        for line in self.topic:
            place = places.get(line)
            if place is None:
                yield f"audit: the topic has a line that no broker's file has: {line[:200]}"
                continue
            if line in seen:
                continue
            seen.add(line)
            process, index = place
            if index < last.get(process, -1):
                broker = process[0]
                yield f"audit: the topic has line {index} of broker {broker} after {last[process]}"
            last[process] = index

    def _lacking_in_topic(self) -> Iterator[str]:
        present = {*self.topic, *self.waiting}
        for broker, lines in self.files.items():
            lacking = [line for line in lines if line not in present]
            if lacking:
                what = f"{len(lacking)} of {len(lines)} lines of broker {broker}"
                yield f"audit: the topic lacks {what}, such as {lacking[0][:200]}"


def _places(files: Mapping[int, Sequence[str]]) -> dict[str, tuple[tuple[int, int], int]]:
    """Broker and process, and the index in the file. What a dead process had sent may arrive after
    lines of the next one."""
    places = {}
    for broker, lines in files.items():
        process = 0
        for index, line in enumerate(lines):
            process += json.loads(line)["sequence"] == 1
            places[line] = ((broker, process), index)
    return places
