"""What Metadata answers about topics, encoded once and kept until the topic changes.

A client that asks for all topics gets thousands of them, and asks again every few minutes, as do a
thousand others. Kept are bytes per request version and listener, and for callers with other rights
the list of what each may see. A difference between two images of the metadata drops the bytes of
the topics that it names; brokers that come or go drop all, since leaders depend on them. What is
kept has a limit in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.compile import item_encoder
from ottla.protocol.encoding import EncodedItems
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.coordinator.metadata.image import MetadataImage, TopicImage

LISTENER_VERSION = 6
OPERATIONS_VERSION = 8
_FLEXIBLE_VERSION = 9
_OPERATIONS_BYTES = 4
# Versions and listeners; callers with other rights in each of these. A caller's list takes 8 bytes
# a topic, and with its operations as much as the answer.
FORMS_MAX = 8
VIEWS_MAX = 8
# Of all that is kept, with about so much beside the bytes of each topic, and of each in a list.
KEPT_BYTES_MAX = 64 << 20
TOPIC_BYTES, LISTED_BYTES = 128, 8


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
    """One element of the answer's array of topics."""
    out = bytearray()
    item_encoder(MetadataResponse, MetadataResponseTopic, version)(topic, out, [])
    return bytes(out)


def describe_topic(
    metadata: MetadataCache, topic: TopicImage, version: int, listener: str
) -> MetadataResponseTopic:
    """A topic as clients of that listener see it, without what the caller may do to it."""
    answer = MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal
    )
    live = {node.node_id for node in metadata.endpoints(listener)}
    for index in sorted(topic.partitions):
        state = topic.partitions[index]
        part = MetadataResponsePartition(
            partition_index=index,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=[
                node
                for node in state.replicas
                if node not in live or node in state.offline_replicas
            ],
        )
        if state.leader not in live:
            # Only of a leader that lives can it be said that it lacks the client's listener.
            lives = state.leader in metadata.image.brokers
            part.error_code = (
                ErrorCode.LISTENER_NOT_FOUND
                if lives and version >= LISTENER_VERSION
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            part.leader_id = -1
        answer.partitions.append(part)
    return answer


class _Form:
    """The topics in one version for one listener."""

    __slots__ = ("_view_bytes", "size_bytes", "topics", "views")

    def __init__(self) -> None:
        self.topics: dict[str, bytes] = {}
        self.views: dict[object, EncodedItems] = {}
        self._view_bytes: dict[object, int] = {}
        self.size_bytes = 0

    def put(self, name: str, topic: bytes) -> None:
        """Keep a topic."""
        assert name not in self.topics
        self.topics[name] = topic
        self.size_bytes += TOPIC_BYTES + len(topic)

    def drop(self, name: str) -> None:
        """The topic has changed."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.size_bytes -= TOPIC_BYTES + len(topic)

    def list(self, key: object, view: EncodedItems, own_bytes: int) -> None:
        """Keep what a caller may see. ``own_bytes``: of topics that are in this list only."""
        if len(self.views) >= VIEWS_MAX:
            self.drop_view()
        self.views[key] = view
        self._view_bytes[key] = LISTED_BYTES * len(view) + own_bytes
        self.size_bytes += self._view_bytes[key]

    def drop_view(self) -> None:
        """Forget the oldest list."""
        key = next(iter(self.views))
        del self.views[key]
        self.size_bytes -= self._view_bytes.pop(key)


class KeptTopics:
    """Of one broker; the metadata that it belongs to tells it each difference."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._names: list[str] | None = None
        self._forms: dict[tuple[int, str], _Form] = {}

    def hear(self, delta: MetadataDelta) -> None:
        """Drop what the difference makes wrong."""
        if delta.before is not self._image or delta.brokers or delta.gone_brokers:
            self._reset(delta.after)
            return
        self._image = delta.after
        made_or_gone = {topic.name for topic in (*delta.made_topics, *delta.gone_topics)}
        touched = made_or_gone | {part.topic for part in delta.partitions}
        if made_or_gone:
            self._names = None
        for form in self._forms.values() if touched else ():
            while form.views:
                form.drop_view()
            for name in touched:
                form.drop(name)

    def one(self, metadata: MetadataCache, version: int, listener: str, topic: TopicImage) -> bytes:
        """A topic of the present image, encoded."""
        form = self._form(metadata, version, listener)
        return self._encoded(metadata, (version, listener), form, topic)

    def every(
        self, services: Services, context: RequestContext, *, with_operations: bool
    ) -> EncodedItems:
        """All topics that the caller may see, by name."""
        metadata, authorizer = services.metadata, services.authorizer
        version, listener = context.api_version, context.listener
        form = self._form(metadata, version, listener)
        key = with_operations, authorizer.view(context)
        view = form.views.get(key)
        if view is None:
            view, own_bytes = EncodedItems(), 0
            topics = self._image.topics
            for name in self._sorted_names():
                if not authorizer.may_see(context, Operation.DESCRIBE, AclResourceType.TOPIC, name):
                    continue
                found = self._encoded(metadata, (version, listener), form, topics[name])
                if with_operations:
                    operations = authorizer.topic_operations(context, name)
                    found = put_operations(found, version, operations)
                    own_bytes += TOPIC_BYTES + len(found)
                view.append(found)
            form.list(key, view, own_bytes)
            self._trim(form)
        return view

    @property
    def kept_bytes(self) -> int:
        """About what all of it takes."""
        return sum(form.size_bytes for form in self._forms.values())

    def _trim(self, used: _Form) -> None:
        """Keep to the limit: the other forms go first, then lists, then the topics."""
        while self.kept_bytes > KEPT_BYTES_MAX:
            if len(self._forms) > 1:
                oldest = next(kind for kind, form in self._forms.items() if form is not used)
                del self._forms[oldest]
            elif used.views:
                used.drop_view()
            else:
                self._forms.clear()

    def _sorted_names(self) -> list[str]:
        if self._names is None:
            self._names = sorted(self._image.topics)
        return self._names

    def _reset(self, image: MetadataImage) -> None:
        self._image = image
        self._names = None
        self._forms.clear()

    def _form(self, metadata: MetadataCache, version: int, listener: str) -> _Form:
        if metadata.image is not self._image:  # it has begun anew
            self._reset(metadata.image)
        form = self._forms.get((version, listener))
        if form is None:
            if len(self._forms) >= FORMS_MAX:
                del self._forms[next(iter(self._forms))]
            form = self._forms[version, listener] = _Form()
        return form

    def _encoded(
        self, metadata: MetadataCache, kind: tuple[int, str], form: _Form, topic: TopicImage
    ) -> bytes:
        found = form.topics.get(topic.name)
        if found is None:
            found = encode_topic(describe_topic(metadata, topic, *kind), kind[0])
            form.put(topic.name, found)
            self._trim(form)
        return found


def put_operations(topic: bytes, version: int, operations: int) -> bytes:
    """The encoded topic with what the caller may do to it: its last field before the tags."""
    if version < OPERATIONS_VERSION:
        return topic
    tags = 1 if version >= _FLEXIBLE_VERSION else 0
    cut = len(topic) - tags - _OPERATIONS_BYTES
    field = operations.to_bytes(_OPERATIONS_BYTES, signed=True)
    return topic[:cut] + field + topic[len(topic) - tags :]


_KEPT: WeakKeyDictionary[MetadataCache, KeptTopics] = WeakKeyDictionary()


def kept_topics(metadata: MetadataCache) -> KeptTopics:
    """What is kept for this metadata, from the first question on."""
    kept = _KEPT.get(metadata)
    if kept is None:
        kept = _KEPT[metadata] = KeptTopics(metadata.image)
        metadata.subscribe(kept.hear)
    return kept
