"""One follower, as its leader sees it.

A follower has caught up at a moment if it then asked for the leader's log end, or for what was the
log end at its fetch before: between two fetches a busy leader is always ahead (KIP-16). Offset,
time and incarnation are written together, so no reader sees one without the others (hazard R-22).
"""

from __future__ import annotations

from math import inf

from ottla.broker.replica.leadership_proofs import NOT_PROVEN
from ottla.protocol.named_tuples import NamedTuple

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1


class FollowerFetch(NamedTuple):
    """What a follower says about itself with each fetch of one partition."""

    node_id: int
    broker_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int


class FollowerProgress:
    """Owned by a leading replica, for as long as one leader epoch lasts."""

    __slots__ = (
        "_leader_end_then",
        "asked",
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "node_id",
        "proven_question",
        "told_log_start_offset",
        "told_watermark",
    )

    def __init__(self, node_id: int, now_ms: float, *, is_member: bool) -> None:
        self.node_id = node_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        # The last request that was found right, as its receiver knows it again.
        self.asked: object = None
        # What the last answer to it said.
        self.told_watermark = UNKNOWN_OFFSET
        self.told_log_start_offset = UNKNOWN_OFFSET
        # The last question after which it certainly followed this leader; read
        # leadership_proofs.py.
        self.proven_question = NOT_PROVEN
        # A member of the ISR has the whole lag time to make itself heard after an election; any
        # other has yet to show that it keeps up.
        self.last_caught_up_ms = now_ms if is_member else -inf
        self.last_fetch_ms = now_ms
        self._leader_end_then = UNKNOWN_OFFSET

    @property
    def is_known(self) -> bool:
        """Whether it has fetched in this leader epoch."""
        return self.log_end_offset != UNKNOWN_OFFSET

    def on_fetch(self, fetch_offset: int, leader_end_offset: int, now_ms: float) -> None:
        """It asked for this offset, which says that it has all records before it (REP-07)."""
        assert 0 <= fetch_offset <= leader_end_offset, (fetch_offset, leader_end_offset)
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif self.is_known and fetch_offset >= self._leader_end_then:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self._leader_end_then = leader_end_offset
        self.last_fetch_ms = now_ms

    def on_same_fetch(self, now_ms: float) -> None:
        """It asked for the log end again, which it was found to have."""
        self.last_caught_up_ms = self.last_fetch_ms = now_ms

    def had_all_until(self, now_ms: float) -> None:
        """It waited for more, and had everything there was until now."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)

    def hurry(self) -> None:
        """Count as one that was told nothing: its fetch, if it waits, is answered at once."""
        self.told_watermark = UNKNOWN_OFFSET

    def forget(self) -> None:
        """Count as one that was never heard, but for its incarnation."""
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.asked = None
        self.last_caught_up_ms = -inf
        self._leader_end_then = UNKNOWN_OFFSET

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_time_max_ms: float) -> bool:
        """Whether it keeps up: it has everything, or had not long ago.

        A follower of an idle partition that has everything is never behind, however long ago it
        was heard: its session decides about that (hazard R-17)."""
        if self.log_end_offset == leader_end_offset:
            return True
        return now_ms - self.last_caught_up_ms <= lag_time_max_ms
