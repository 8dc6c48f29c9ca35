"""What a broker has kept to answer Metadata with is what it would answer anew.

A broker encodes its answer about a topic once and drops it when the topic changes. What it forgets
to drop sends clients to a leader that is none, and no client can tell why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers import metadata_topics
from ottla.broker.handlers.metadata_topics import describe_topic, encode_topic

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.image import MetadataImage


class KeptAnswers:
    """Compares what is kept once for each image. The callback gets a key and a sentence."""

    def __init__(self, violation: Callable[[str, str], object], counts: Counter[str]) -> None:
        self._violation = violation
        self._counts = counts
        # By broker: the image that was looked at, and how much was kept then.
        self._seen: dict[int, tuple[MetadataImage, int]] = {}

    def look(self, node_id: int, metadata: MetadataCache) -> None:
        """Compare what a broker has kept with what it would answer anew."""
        kept = metadata_topics._KEPT.get(metadata)
        if kept is None or kept._image is not metadata.image:
            # At the next question all is dropped.
            return
        count = sum(len(form.topics) + len(form.views) for form in kept._forms.values())
        image, known = self._seen.get(node_id, (None, 0))
        if image is metadata.image and known == count:
            return
        self._seen[node_id] = metadata.image, count
        for (version, listener), form in kept._forms.items():
            fresh = {
                name: encode_topic(describe_topic(metadata, topic, version, listener), version)
                for name, topic in sorted(metadata.image.topics.items())
            }
            self._counts["kept answers"] += len(form.topics)
            stale = [name for name, found in form.topics.items() if found != fresh.get(name)]
            for key, view in form.views.items():
                assert isinstance(key, tuple)
                # Without an authorizer every caller sees all topics; here without operations.
                if not key[0] and list(view) != list(fresh.values()):
                    stale.append("*")
            if stale:
                where = f"broker {node_id}, version {version}, {', '.join(stale)}"
                self._violation(f"answer {where}", f"metadata: {where}: an old answer is kept")
