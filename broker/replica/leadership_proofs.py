"""Proves that followers still followed this broker after a request came; for read barriers.

A leader that was suspended does not know of its successor, and earlier fetches of its followers
prove nothing: they may have been queued in a socket. So a follower's fetch is dated by the response
that the follower had read before.

    1. a question comes                                        (it gets a number)
    2. a fetch of the follower is answered on a connection     (that connection has read so far)
    3. the follower's next fetch comes on that connection      (it was sent after 2)

A follower that still fetches in the leader's epoch in step 3 did not lead, and did not follow
another leader, when the question came: a replica never returns to an earlier epoch.
"""

from __future__ import annotations

from math import inf

NOT_PROVEN = 0
# Followers have one or two connections each. Beyond this the entries are dropped, which only delays
# a proof by one round.
CONNECTIONS_MAX = 1_000


class LeadershipProofs:
    """Owned by the read barriers of one broker; records nothing while no question is open."""

    __slots__ = ("_answered", "_deadline_ms", "is_open", "question")

    def __init__(self) -> None:
        # The number of the last question, from 1.
        self.question = NOT_PROVEN
        self.is_open = False
        self._deadline_ms = -inf
        self._answered: dict[object, int] = {}

    def ask(self, deadline_ms: float) -> int:
        """Open a question until the deadline; returns its number."""
        self.question += 1
        self.is_open = True
        self._deadline_ms = max(self._deadline_ms, deadline_ms)
        return self.question

    def on_answer(self, connection: object) -> None:
        """A follower's fetch is answered on that connection; its next fetch is sent after this."""
        if not self.is_open:
            return
        if len(self._answered) >= CONNECTIONS_MAX:
            self._answered.clear()
        self._answered[connection] = self.question
        assert len(self._answered) <= CONNECTIONS_MAX

    def on_fetch(self, connection: object, now_ms: float) -> int:
        """The last question that certainly preceded this fetch."""
        if now_ms > self._deadline_ms:
            self.is_open = False
            self._answered.clear()
        proven = self._answered.get(connection, NOT_PROVEN)
        assert proven <= self.question, "a fetch proves nothing about a later question"
        return proven
