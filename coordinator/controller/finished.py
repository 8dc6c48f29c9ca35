"""Keeps the results of a request about topics when the store refuses a part of it.

A large request is written in several groups. What the groups before the refused one wrote exists;
requested again it would look foreign: a topic that already exists, a partition count that is not
larger, a topic that is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.controller.events import CreatePartitions, CreateTopics, DeleteTopics
from ottla.coordinator.controller.specs import (
    PartitionsSpec,
    TopicDeletion,
    TopicResult,
    TopicSpec,
)
from ottla.coordinator.metadata.changes import TopicChanged, TopicGone

if TYPE_CHECKING:
    from ottla.coordinator.controller.events import ControllerDecision, Event, Reply

Named = TypeVar("Named", TopicSpec, PartitionsSpec, TopicDeletion)


class FinishedTopics:
    """Lives as long as one request is tried; ignores events of other kinds."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._results: dict[str, TopicResult] = {}

    def left(self, event: Event) -> Event:
        """The event without the topics that are finished."""
        match event:
            case CreateTopics(specs):
                return event._replace(specs=self._rest(specs))
            case CreatePartitions(additions):
                return event._replace(specs=self._rest(additions))
            case DeleteTopics(deletions):
                return DeleteTopics(self._rest(deletions))
            case _:
                return event

    def _rest(self, items: tuple[Named, ...]) -> tuple[Named, ...]:
        self._names = self._names or tuple(one.name for one in items)
        return tuple(one for one in items if one.name not in self._results)

    def took(self, decision: ControllerDecision, count: int) -> None:
        """The store has accepted that many of the decision's writes and then refused one.

        A topic whose assignment is written is finished: settling the cluster completes it. A
        deleted topic is finished with its own znode, which is the last."""
        assert count < len(decision.records), "one of the writes was refused"
        names = set()
        for write in decision.records[:count]:
            for change in write.changes:
                if isinstance(change, TopicChanged):
                    names.add(change.topic.name)
                elif isinstance(change, TopicGone):
                    names.add(change.name)
        for result in decision.reply or ():
            if isinstance(result, TopicResult) and result.name in names:
                self._results[result.name] = result

    def reply(self, reply: Reply) -> Reply:
        """The results of the whole request, in its order."""
        if not self._results:
            return reply
        assert self._results.keys() <= set(self._names)
        results = dict(self._results)
        results |= {one.name: one for one in reply if isinstance(one, TopicResult)}
        return tuple(results[name] for name in self._names)
