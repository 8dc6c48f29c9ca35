"""Resolves the topics that a group's members subscribe to, by name and by expression."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import INTERNAL_TOPICS
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ottla.coordinator.group.consumer.changes import Changes
    from ottla.coordinator.group.consumer.member import ConsumerGroupMember
    from ottla.coordinator.group.consumer.state import ConsumerGroupState
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.ids import Uuid

NO_TOPICS = 0


class Subscribed(NamedTuple):
    """Existing topics only: those of each member, and the partition count of each topic."""

    by_member: Mapping[str, frozenset[Uuid]]
    partition_counts: Mapping[Uuid, int]


class Matching(NamedTuple):
    """How expressions are resolved.

    Args:
        compile_pattern: Turns an expression into a predicate for a whole topic name, or raises
            ValueError.
        may_describe: Whether the member that has them resolved may describe a topic.
    """

    compile_pattern: Callable[[str], Callable[[str], bool]]
    may_describe: Callable[[str], bool]


def names_of(state: ConsumerGroupState, member: ConsumerGroupMember) -> Iterable[str]:
    """All topic names that the member subscribes to, existing or not."""
    subscription = member.subscription
    if subscription.regex is None:
        return subscription.topic_names
    return state.regexes.get(subscription.regex, frozenset()).union(subscription.topic_names)


def subscribed_topics(state: ConsumerGroupState, image: MetadataImage) -> Subscribed:
    """The topics that can be assigned to each member."""
    by_names: dict[frozenset[str], frozenset[Uuid]] = {}
    by_member: dict[str, frozenset[Uuid]] = {}
    counts: dict[Uuid, int] = {}
    for member_id, member in state.members.items():
        names = frozenset(names_of(state, member))
        found = by_names.get(names)
        if found is None:
            topics = [image.topics[name] for name in sorted(names) if name in image.topics]
            counts.update((topic.topic_id, len(topic.partitions)) for topic in topics)
            found = by_names[names] = frozenset(topic.topic_id for topic in topics)
        by_member[member_id] = found
    assert by_member.keys() == state.members.keys(), "a member would get no target"
    return Subscribed(by_member, counts)


def metadata_hash(state: ConsumerGroupState, image: MetadataImage) -> int:
    """A hash that changes if a subscribed topic is created, deleted, recreated or grows (KIP-1101).

    Signed 64 bits; compared only with hashes of this function."""
    names: set[str] = set()
    for member in state.members.values():
        names.update(names_of(state, member))
    existing = sorted(names & image.topics.keys())
    if not existing:
        return NO_TOPICS
    digest = blake2b(digest_size=8)
    for name in existing:
        topic = image.topics[name]
        digest.update(b"%b/%b/%d\n" % (topic.topic_id, name.encode(), len(topic.partitions)))
    return int.from_bytes(digest.digest(), signed=True)


def forget_expressions(state: ConsumerGroupState, changes: Changes) -> None:
    """Delete the expressions that no member subscribes by."""
    for regex in sorted(state.regexes.keys() - _in_use(state)):
        changes.remove_regex(regex)


def _in_use(state: ConsumerGroupState) -> set[str]:
    return {
        member.subscription.regex
        for member in state.members.values()
        if member.subscription.regex is not None
    }


def resolve_expressions(
    state: ConsumerGroupState,
    changes: Changes,
    image: MetadataImage,
    matching: Matching,
    wall_ms: int,
) -> None:
    """Match every expression in use against all topics and delete unused expressions.

    Internal topics never match: no ``.*`` is meant for them, and consumers could not read them."""
    forget_expressions(state, changes)
    for regex in sorted(_in_use(state)):
        try:
            matches = matching.compile_pattern(regex)
        except ValueError:
            # Another broker, whose RE2 may be newer, accepted it: it matches nothing here.
            matched: frozenset[str] = frozenset()
        else:
            matched = frozenset(
                name
                for name in image.topics
                if matches(name) and name not in INTERNAL_TOPICS and matching.may_describe(name)
            )
        if state.regexes.get(regex) != matched:
            changes.put_regex(regex, matched, wall_ms)
    assert state.regexes.keys() == _in_use(state), "members would see topics of no expression"
