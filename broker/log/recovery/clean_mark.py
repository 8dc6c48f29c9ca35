"""The mark of a clean stop: the broker and epoch that stopped, and the end of each log.

It is written last, when all logs are durable, and removed before anything is loaded (hazard S-05).
A log that differs from its entry was not stopped cleanly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = 0


class CleanLog(NamedTuple):
    """The state of a cleanly stopped log.

    ``aborted_count``: entries of all its transaction indexes, -1 if not counted; it detects lost
    index files (T-18)."""

    log_end_offset: int
    active_base_offset: int
    active_size_bytes: int
    aborted_count: int = -1


class CleanMark(NamedTuple):
    """``broker_epoch`` is that of the run that stopped; the next registration reports it."""

    broker_id: int
    broker_epoch: int
    logs: Mapping[TopicPartition, CleanLog]


def encode_mark(mark: CleanMark) -> bytes:
    """JSON; version and brokerEpoch are named as in Kafka, the rest is Ottla's."""
    document = {
        "version": _VERSION,
        "brokerEpoch": mark.broker_epoch,
        "brokerId": mark.broker_id,
        "logs": [[*partition, *state] for partition, state in sorted(mark.logs.items())],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_mark(content: bytes | None) -> CleanMark | None:
    """The mark; None if it is absent, corrupt or foreign, and then no log counts as clean."""
    if content is None:
        return None
    try:
        document = json.loads(content)
        if document["version"] != _VERSION:
            return None
        logs: dict[TopicPartition, CleanLog] = {}
        for topic, partition, *state in document["logs"]:
            if not isinstance(topic, str) or not all(isinstance(n, int) for n in state):
                return None
            logs[TopicPartition(topic, int(partition))] = CleanLog(*state)
        return CleanMark(int(document["brokerId"]), int(document["brokerEpoch"]), logs)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
