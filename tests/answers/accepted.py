"""Where our answers may differ from both recorded Kafkas: the entries of docs/differences.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ottla.protocol.named_tuples import NamedTuple
from tests.answers.asking import SILENT

if TYPE_CHECKING:
    from collections.abc import Callable


class Accepted(NamedTuple):
    """Number of the entry, whose cases and fields it is about, and what the two may say there."""

    entry: int
    cases: str
    fields: str
    holds: Callable[[Any, Any], bool]

    def covers(self, case: str, field: str, theirs: Any, ours: Any) -> bool:
        """Whether that difference is the one that the entry tells of."""
        return (
            re.fullmatch(self.cases, case) is not None
            and re.fullmatch(self.fields, field) is not None
            and self.holds(theirs, ours)
        )


def _failed(theirs: Any, ours: Any) -> bool:
    return bool(theirs == -1 and ours == 42)


def _silent(theirs: Any, _ours: Any) -> bool:
    return bool(theirs == SILENT)


def _sentence(theirs: Any, ours: Any) -> bool:
    return not theirs and ours == "a sentence"


def _invalid(theirs: Any, ours: Any) -> bool:
    """Kafka stored it, failed on it, or took it for part of a transaction."""
    return bool(theirs in (None, -1, 53) and ours == 87)


def _not_stored(theirs: Any, ours: Any) -> bool:
    return theirs is None and bool(ours == -1)


def _whatever(_theirs: Any, _ours: Any) -> bool:
    return True


# Batches whose data no decompressor takes, and batches that Kafka stores all the same.
_UNREADABLE = r"produce \d+ (batch: codec \d|(GZIP|SNAPPY|LZ4|ZSTD) .*)"
_STORED = r"produce \d+ (producer id -2|a batch with .*|.* garbage behind it)"

ACCEPTED = (
    Accepted(1, r"(fetch|list_offsets) .* isolation_level=.*", r"(.*\.)?error_code", _failed),
    Accepted(1, r"incremental_alter_configs .*config_operation=.*", r".*\.error_code", _failed),
    Accepted(1, r"metadata .* topics\.name=null", r".*\.error_code", _failed),
    Accepted(2, r"alter_configs .* resources=twice", r"", _silent),
    Accepted(3, r".*", r"(.*\.)?error_message", _sentence),
    Accepted(4, _UNREADABLE, r".*\.error_code", _invalid),
    Accepted(4, _STORED, r".*\.error_code", _invalid),
    Accepted(4, _STORED, r".*\.base_offset", _not_stored),
    Accepted(4, r"produce \d+ no records field", r"", _silent),
    Accepted(4, r"produce \d+ idempotent .* without a producer", r".*\.error_code", _invalid),
    Accepted(4, r"produce \d+ idempotent .* without a producer", r".*\.log_start.*", _whatever),
    Accepted(9, r"elect_leaders .*(twice|empty)", r"replica_election_results.*", _whatever),
    Accepted(9, r"delete_topics .*=twice", r"responses", _whatever),
    Accepted(13, r"create_topics .*", r"topics\.topic_id", lambda _, ours: ours is None),
)
