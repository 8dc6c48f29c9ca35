"""Finds partitions whose state must change and writes the new states."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.controller.leadership import Circumstances, settle
from ottla.coordinator.store import entities, paths
from ottla.coordinator.store.full_disks import Room
from ottla.coordinator.store.store import Check
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.coordinator.controller.brokers import BrokerDifference
    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.controller.writes import WriteList
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState, TopicImage
    from ottla.protocol.ids import TopicPartition

MIN_INSYNC = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class Settlement:
    """Applies one controller's rules to all partitions."""

    context: ControllerContext

    def settle(
        self,
        writes: WriteList,
        image: MetadataImage,
        items: Iterable[TopicPartition],
        difference: BrokerDifference | None,
    ) -> list[TopicPartition]:
        """Write the new states; return the partitions that changed."""
        changed = []
        by_topic: dict[str, Circumstances] = {}
        for item in items:
            if item.topic in self.context.deleting:
                continue
            topic = image.topics[item.topic]
            now = by_topic.get(item.topic)
            if now is None:
                now = by_topic[item.topic] = self.circumstances(image, topic, difference)
            state = topic.partitions[item.partition]
            settled = settle(state, self.at(item, state, now))
            if settled is not state:
                # Without a higher epoch the old leader is not fenced (C-21).
                assert settled.leader_epoch > state.leader_epoch or not state.has_state
                assert settled.controller_epoch == self.context.identity.epoch
                writes.add_state(item.topic, item.partition, settled, image.brokers)
                changed.append(item)
            elif state.has_state and not now.unclean.isdisjoint(state.replicas):
                # Its leader may have added the broker's last life to the ISR and not announced it
                # yet; from this life's registration on it cannot any more.
                path = paths.state(item.topic, item.partition)
                writes.add([Check(path, state.partition_epoch)])
        return changed

    def at(self, item: TopicPartition, state: PartitionState, now: Circumstances) -> Circumstances:
        """The topic's circumstances for one of its partitions."""
        if self.context.full:
            now = replace(
                now,
                low=self.context.with_room_below(Room.ENOUGH, item, state.replicas),
                stuck=self.context.with_room_below(Room.LOW, item, state.replicas),
            )
        offline = self.context.offline
        failed = [
            node_id
            for node_id in state.replicas
            if node_id not in now.restarted and item in offline.get(node_id, ())
        ]
        return now.without(failed) if failed else now

    def circumstances(
        self,
        image: MetadataImage,
        topic: TopicImage,
        difference: BrokerDifference | None = None,
    ) -> Circumstances:
        """What decides about a topic's partitions.

        Settings count as in Kafka: the topic's own, then those set for brokers, then the
        controller's file. Whether an unclean election is allowed is decided by the controller's
        broker, so its own value precedes the default for all. The minimum ISR is not taken from
        single brokers: the eligible leaders would depend on the leader (KIP-966 forbids it). If the
        leader has a value of its own, nothing is lost: it commits nothing while a broker is
        eligible, and rewrites the list by its own rule."""
        settings, identity = self.context.settings, self.context.identity
        # A loss is known only of a broker that has registered again, and it is live then.
        assert difference is None or difference.restarted_ids <= image.brokers.keys()
        own = image.config("topics", topic.name)
        of_all = image.config("brokers", entities.DEFAULT_ENTITY)
        of_controller = image.config("brokers", str(identity.node_id))
        return Circumstances(
            live=frozenset(image.brokers),
            restarted=difference.restarted_ids if difference else frozenset(),
            unclean=difference.unclean_ids if difference else frozenset(),
            away=self.context.away(image),
            min_insync_replicas=_minimum((own, of_all), settings.min_insync_replicas),
            # Committed group offsets and transaction outcomes must never be lost.
            allow_unclean_election=not topic.is_internal
            and _allows_unclean(
                (own, of_controller, of_all), settings.unclean_leader_election_enable
            ),
            controller_epoch=identity.epoch,
        )


def _minimum(layers: Iterable[Mapping[str, str]], default: int) -> int:
    """Of several layers of settings, strongest first; what cannot be read counts as not set."""
    for layer in layers:
        try:
            return int(layer[MIN_INSYNC])
        except (KeyError, ValueError):
            continue
    return default


def _allows_unclean(layers: Iterable[Mapping[str, str]], default: bool) -> bool:
    for layer in layers:
        text = layer.get(UNCLEAN_ELECTION, "").lower()
        if text in ("true", "false"):
            return text == "true"
    return default
