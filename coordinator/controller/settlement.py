"""Which partitions of an image are not as they should be, and what to write about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.coordinator.controller.leadership import Circumstances, settle
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.coordinator.controller.brokers import BrokerDifference
    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.controller.writes import WriteList
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState, TopicImage
    from ottla.protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Settlement:
    """One controller's rules for all partitions."""

    context: ControllerContext

    def settle(
        self,
        writes: WriteList,
        image: MetadataImage,
        items: Iterable[TopicPartition],
        difference: BrokerDifference | None,
    ) -> list[TopicPartition]:
        """Write what should be different about the partitions; return which ones."""
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
                writes.add_state(item.topic, item.partition, settled)
                changed.append(item)
            elif state.has_state and not now.unclean.isdisjoint(state.replicas):
                # Its leader may have added the broker's last life to the ISR and not announced it
                # yet; from this life's registration on it cannot any more.
                path = paths.state(item.topic, item.partition)
                writes.add([Check(path, state.partition_epoch)])
        return changed

    def at(self, item: TopicPartition, state: PartitionState, now: Circumstances) -> Circumstances:
        """The topic's circumstances for one of its partitions."""
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
        """What decides about a topic's partitions."""
        configs = image.config("topics", topic.name)
        settings = self.context.settings
        allow = settings.unclean_leader_election_enable
        return Circumstances(
            live=frozenset(image.brokers),
            restarted=difference.restarted_ids if difference else frozenset(),
            unclean=difference.unclean_ids if difference else frozenset(),
            away=self.context.away(image),
            min_insync_replicas=_integer(
                configs, "min.insync.replicas", settings.min_insync_replicas
            ),
            # Committed group offsets and transaction outcomes must never vanish.
            allow_unclean_election=not topic.is_internal
            and _flag(configs, "unclean.leader.election.enable", allow),
            controller_epoch=self.context.identity.epoch,
        )


def _integer(configs: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(configs[name])
    except (KeyError, ValueError):
        return default


def _flag(configs: Mapping[str, str], name: str, default: bool) -> bool:
    return {"true": True, "false": False}.get(configs.get(name, "").lower(), default)
