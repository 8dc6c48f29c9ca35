"""The partitions, groups and offsets of one transaction, and whether it is announced. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.client.sending.coordinator_requests import AskEnd, AskGroup, AskOffsets, AskPartitions

if TYPE_CHECKING:
    from ottla.client.sending.coordinator_requests import Ask
    from ottla.protocol.ids import TopicPartition


class Parts:
    """Owned by a ``ProducerTransaction``, which clears it for each transaction.

    ``is_known``: the coordinator knows the transaction, or certainly will; ``may_be_known``: a
    request that announces it was lost, or its answer was."""

    __slots__ = (
        "_groups",
        "_joined",
        "_joining",
        "_offsets",
        "is_implicit",
        "is_known",
        "may_be_known",
    )

    def __init__(self) -> None:
        # Whether brokers add partitions and groups to the transaction by themselves.
        self.is_implicit = False
        self.is_known = False
        self.may_be_known = False
        self._joined: set[TopicPartition] = set()
        self._joining: dict[TopicPartition, None] = {}
        self._groups: set[str] = set()
        self._offsets: deque[AskOffsets] = deque()

    def begin(self, *, is_implicit: bool) -> None:
        """Begin an empty transaction."""
        assert not self.is_waiting
        self.is_implicit = is_implicit
        self.is_known = self.may_be_known = False
        self._joined.clear()
        self._groups.clear()

    def admit(self, partition: TopicPartition) -> None:
        """Record that a record for this partition was taken."""
        if not self.is_implicit and partition not in self._joined:
            self._joining[partition] = None

    def send_offsets(self, ask: AskOffsets) -> None:
        """Make these offsets part of the transaction."""
        self._offsets.append(ask)

    def has(self, partition: TopicPartition) -> bool:
        """Return whether the partition may be written to."""
        return self.is_implicit or partition in self._joined

    @property
    def is_waiting(self) -> bool:
        """Whether something has not been announced or sent."""
        return bool(self._joining or self._offsets)

    def drop_waiting(self) -> None:
        """Announce and send nothing more."""
        self._joining.clear()
        self._offsets.clear()

    def next_ask(self) -> Ask:
        """Return the next request while something ``is_waiting``."""
        assert self.is_waiting
        if self._joining:
            return AskPartitions(tuple(sorted(self._joining)))
        ask = self._offsets[0]
        if not self.is_implicit and ask.group.group_id not in self._groups:
            return AskGroup(ask.group.group_id)
        # The group's coordinator announces the group by itself.
        self.is_known = True
        return ask

    def added(self, ask: Ask) -> None:
        """Record that the request succeeded."""
        match ask:
            case AskPartitions(partitions):
                self._joined.update(partitions)
                for partition in partitions:
                    self._joining.pop(partition, None)
            case AskGroup(group_id):
                self._groups.add(group_id)
            case AskOffsets():
                if self._offsets and self._offsets[0] is ask:
                    self._offsets.popleft()
        self.is_known = True

    def lost(self, ask: Ask) -> None:
        """Record that the request may have succeeded."""
        assert not isinstance(ask, AskEnd)
        self.may_be_known = True
