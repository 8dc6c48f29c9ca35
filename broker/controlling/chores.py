"""The periodic work of a controllership: it re-reads the store and balances leaderships."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import BalanceDue
from ottla.coordinator.metadata.changes import TopicChanged, TopicGone
from ottla.coordinator.store import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.coordinator.controller.events import Event
    from ottla.coordinator.controller.specs import ControllerSettings
    from ottla.coordinator.metadata.changes import Change
    from ottla.coordinator.metadata.image import TopicImage
    from ottla.protocol.ports import Clock, Timer

# Watches report changes; if a report is lost, the change is found after this time (C-07).
RECONCILE_MS = 30_000.0
# Partitions whose states are read again in one such pass; the next ones follow in the next pass.
RECONCILED_AT_ONCE = 500
# The watch on the list of topics also reports what this controller has written. All names are read
# again after this time: for thousands of topics that takes longer than to create one.
TOPICS_PAUSE_MS = 100.0
FIRST_BALANCE_MS = 5_000.0
BALANCE_PAUSE_MS = 1_000.0
OWED_BALANCE_MS = 5_000.0

# Marks are paths; this one stands for a slice of the topics.
RECONCILE = "reconcile"
RECONCILED_PATHS = (
    paths.CONTROLLER,
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.REASSIGN_PARTITIONS,
    paths.DELETE_TOPICS,
    paths.PREFERRED_ELECTION,
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
    paths.FULL_DISKS,
)


class ControllerChores:
    """Owned by one controllership. ``mark`` marks a path to be read again, ``queue`` adds an
    event."""

    def __init__(
        self,
        clock: Clock,
        settings: ControllerSettings,
        mark: Callable[[str], object],
        queue: Callable[[Event], object],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._mark = mark
        self._queue = queue
        self._timers: dict[str, Timer] = {}
        self._reconciled_up_to = ""
        self._turns_to_skip = 0
        self._topics_written_ms = -TOPICS_PAUSE_MS - 1

    def begin(self) -> None:
        """Start the timers; the controllership is complete."""
        self._later("reconcile", RECONCILE_MS, self._reconcile)
        if self._settings.auto_leader_rebalance_enable:
            self._later("balance", FIRST_BALANCE_MS, self._balance)

    def stop(self) -> None:
        """Stop the timers; the controllership has ended."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def balanced(self, *, moved_some: bool, owes_some: bool = False) -> None:
        """A batch of leaderships was moved back, or none had to be.

        ``owes_some``: a broker whose disk has space again may not have its leaderships back yet."""
        interval_ms: float = self._settings.leader_imbalance_check_interval_ms
        if owes_some:
            interval_ms = min(interval_ms, OWED_BALANCE_MS)
        self._later("balance", BALANCE_PAUSE_MS if moved_some else interval_ms, self._balance)

    def balance_soon(self) -> None:
        """A full disk has space again: do not wait for the next regular balance."""
        if self._settings.auto_leader_rebalance_enable:
            self._later("balance", BALANCE_PAUSE_MS, self._balance)

    def writing(self, changes: Sequence[Change]) -> None:
        """The controller itself writes these paths now."""
        if any(isinstance(one, TopicChanged | TopicGone) for one in changes):
            self._topics_written_ms = self._clock.now_ms()

    def defers(self, path: str) -> bool:
        """Whether the change is most likely this controller's own: then it is read a moment later,
        together with changes until then."""
        age_ms = self._clock.now_ms() - self._topics_written_ms
        if path != paths.TOPICS or age_ms > TOPICS_PAUSE_MS:
            return False
        self._later("topics", TOPICS_PAUSE_MS, lambda: self._mark(paths.TOPICS))
        return True

    def next_slice(self, topics: Sequence[TopicImage]) -> list[str]:
        """Return the topics, in the order of their names, whose states are due for another read."""
        left = [topic for topic in topics if topic.name > self._reconciled_up_to] or topics
        chosen: list[str] = []
        count = 0
        for topic in left:
            count += len(topic.partitions)
            if chosen and count > RECONCILED_AT_ONCE:
                count -= len(topic.partitions)
                break
            chosen.append(topic.name)
        self._reconciled_up_to = chosen[-1] if chosen else ""
        # A topic of thousands of partitions is read in one turn; later turns are delayed for that.
        self._turns_to_skip = max(0, count - 1) // RECONCILED_AT_ONCE
        return chosen

    def _reconcile(self) -> None:
        for path in RECONCILED_PATHS:
            self._mark(path)
        if self._turns_to_skip:
            self._turns_to_skip -= 1
        else:
            self._mark(RECONCILE)
        self._later("reconcile", RECONCILE_MS, self._reconcile)

    def _balance(self) -> None:
        self._queue(BalanceDue())

    def _later(self, name: str, delay_ms: float, action: Callable[[], object]) -> None:
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._clock.call_at(self._clock.now_ms() + delay_ms, action)
