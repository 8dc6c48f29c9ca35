"""Who still followed this broker after a question had come: what a read barrier rests on.

A leader that slept does not know of its successor, and what its followers asked it before proves
nothing: it may have lain in a socket all the while. So a follower's word is dated by what it had
read when it gave it.

    1. a question comes                                        (it gets a number)
    2. a fetch of the follower is answered on a connection     (that connection has read so far)
    3. the follower's next fetch comes on that connection      (it was sent after 2)

A follower that still asks in the leader's own epoch in step 3 did not lead, and did not follow
anybody else, when the question came: whoever has entered a later epoch never goes back.
"""

from __future__ import annotations

from math import inf

NOT_PROVEN = 0
# Followers have a connection or two each; what comes and goes faster is forgotten, which proves
# nothing and costs a question a round more.
CONNECTIONS_MAX = 1_000


class LeadershipProofs:
    """Owned by the read barriers of one broker. Nothing is noted while no question is open."""

    __slots__ = ("_answered", "_deadline_ms", "is_open", "question")

    def __init__(self) -> None:
        # Of the last question; they are counted from 1.
        self.question = NOT_PROVEN
        self.is_open = False
        self._deadline_ms = -inf
        self._answered: dict[object, int] = {}

    def ask(self, deadline_ms: float) -> int:
        """The number of a question that is open until then."""
        self.question += 1
        self.is_open = True
        self._deadline_ms = max(self._deadline_ms, deadline_ms)
        return self.question

    def on_answer(self, connection: object) -> None:
        """A follower's fetch is answered there: what it sends next was sent after this."""
        if not self.is_open:
            return
        if len(self._answered) >= CONNECTIONS_MAX:
            self._answered.clear()
        self._answered[connection] = self.question

    def on_fetch(self, connection: object, now_ms: float) -> int:
        """The last question that had come when this fetch was sent, as far as that is certain."""
        if now_ms > self._deadline_ms:
            self.is_open = False
            self._answered.clear()
        return self._answered.get(connection, NOT_PROVEN)
