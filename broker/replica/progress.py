"""One follower's progress, as its leader knows it.

A follower has caught up when it fetches at the leader's log end, or at the log end of its previous
fetch: between two fetches a busy leader is always ahead (KIP-16). Offset, time and broker epoch are
written together, so no reader sees one without the others (hazard R-22).
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from ottla.broker.replica.leadership_proofs import NOT_PROVEN
from ottla.protocol.named_tuples import NamedTuple

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1
# Since Kafka 0.9 the number of messages behind takes no follower out of the ISR.
ANY_LAG = (1 << 63) - 1


class FollowerLag(NamedTuple):
    """How far a follower may be behind and stay in the ISR."""

    time_max_ms: float = 10_000
    messages_max: int = ANY_LAG


class FollowerFetch(NamedTuple):
    """A follower's state as sent with each fetch of one partition."""

    node_id: int
    broker_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int


class SessionClock(Protocol):
    """A fetch session whose requests count for all partitions that rest in it."""

    @property
    def asked_ms(self) -> float: ...


class FollowerProgress:
    """One follower's progress; owned by a leading replica for one leader epoch."""

    __slots__ = (
        "_caught_up_ms",
        "_fetch_ms",
        "_leader_end_then",
        "asked",
        "broker_epoch",
        "log_end_offset",
        "log_start_offset",
        "node_id",
        "proven_question",
        "rests_in",
        "told_log_start_offset",
        "told_watermark",
    )

    def __init__(self, node_id: int, now_ms: float, *, is_member: bool) -> None:
        self.node_id = node_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        # Identifies the last verified request, for its receiver.
        self.asked: object = None
        # As sent in the last response.
        self.told_watermark = UNKNOWN_OFFSET
        self.told_log_start_offset = UNKNOWN_OFFSET
        # The last question after which it certainly followed this leader; see leadership_proofs.py.
        self.proven_question = NOT_PROVEN
        # After an election a member of the ISR has the full lag time for its first fetch; any other
        # replica has to prove that it keeps up.
        self._caught_up_ms = now_ms if is_member else -inf
        self._fetch_ms = now_ms
        # While it has everything, each request of that session repeats its fetch at the log end.
        self.rests_in: SessionClock | None = None
        self._leader_end_then = UNKNOWN_OFFSET

    @property
    def is_known(self) -> bool:
        """Whether it has fetched in this leader epoch."""
        return self.log_end_offset != UNKNOWN_OFFSET

    @property
    def last_caught_up_ms(self) -> float:
        """When it last had everything, or all of the time before."""
        rest = self.rests_in
        return self._caught_up_ms if rest is None else max(self._caught_up_ms, rest.asked_ms)

    @property
    def last_fetch_ms(self) -> float:
        """When it last fetched."""
        return self._fetch_ms if self.rests_in is None else self.rests_in.asked_ms

    def end_rest(self) -> None:
        """Keep the time of the session's last request; its later ones do not count any more."""
        if self.rests_in is not None:
            self._caught_up_ms = self.last_caught_up_ms
            self._fetch_ms = self.last_fetch_ms
            self.rests_in = None
            assert self.is_known, "only what has fetched rests"

    def on_fetch(self, fetch_offset: int, leader_end_offset: int, now_ms: float) -> None:
        """Account for a fetch at this offset, which acknowledges all records before it (REP-07)."""
        assert 0 <= fetch_offset <= leader_end_offset, (fetch_offset, leader_end_offset)
        assert self.rests_in is None, "a session's request would count for what is not at its end"
        if fetch_offset >= leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif self.is_known and fetch_offset >= self._leader_end_then:
            self._caught_up_ms = max(self._caught_up_ms, self._fetch_ms)
        self.log_end_offset = fetch_offset
        self._leader_end_then = leader_end_offset
        self._fetch_ms = now_ms

    def had_all_until(self, now_ms: float) -> None:
        """Account for a parked fetch: the follower had everything until now."""
        self._caught_up_ms = max(self._caught_up_ms, now_ms)

    def hurry(self) -> None:
        """Make the leader answer its parked fetch, if there is one, at once."""
        self.told_watermark = UNKNOWN_OFFSET

    def forget(self) -> None:
        """Reset everything but the broker epoch, as if it had never fetched."""
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.asked = self.rests_in = None
        self._caught_up_ms = -inf
        self._leader_end_then = UNKNOWN_OFFSET

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_time_max_ms: float) -> bool:
        """Whether it keeps up: it has everything, or had within the lag time.

        A follower that has everything never lags, however old its last fetch is: whether it is
        alive is decided by its session (hazard R-17)."""
        assert self.log_end_offset <= leader_end_offset, "a leader's log loses no records"
        if self.log_end_offset == leader_end_offset:
            return True
        return now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def is_near(self, leader_end_offset: int, lag_messages_max: int) -> bool:
        """Whether it is at most that many messages behind, the rule of Kafka 0.8.

        What is not known to lag, because it has not fetched yet, has the lag time for that."""
        return not self.is_known or leader_end_offset - self.log_end_offset <= lag_messages_max
