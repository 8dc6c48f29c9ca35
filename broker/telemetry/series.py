"""The latest figures of each client, within limits, named for the metrics page. Pure.

Clients push counters as deltas, which are added up here. All names begin with ``kafka_client_``, so
that a client cannot overwrite a figure of the broker.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.protocol.ids import Uuid, uuid_to_text
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.broker.telemetry.demands import ClientIdentity

# Limits for all clients of a broker, and for one client.
SERIES_MAX = 20_000
SERIES_OF_CLIENT_MAX = 1_000
_NAME_MAX = 150
_TEXT_MAX = 120
_LABELS_MAX = 8
_PREFIX = "kafka_client_"
_OWN_LABELS = ("client_id", "client_instance_id", "client_software_name")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]")

LabelPairs = tuple[tuple[str, str], ...]


class ClientFigure(NamedTuple):
    """One figure of a push. ``name`` is the client's, with dots."""

    name: str
    labels: LabelPairs
    value: float
    is_counter: bool
    is_delta: bool


class ClientFamily(NamedTuple):
    """All figures of one name. A missing label is empty."""

    name: str
    is_counter: bool
    label_names: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], float]]


class _SeriesKey(NamedTuple):
    instance_id: Uuid
    labels: LabelPairs


class ClientSeries:
    """Filled by pushes, read by scrapes."""

    def __init__(self) -> None:
        self._is_counter: dict[str, bool] = {}
        self._values: dict[str, dict[_SeriesKey, float]] = {}
        self._of_client: dict[Uuid, set[tuple[str, _SeriesKey]]] = {}
        self._count = 0
        # Figures dropped for lack of room, or because their type differs from that of their name.
        self.dropped_count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, client: ClientIdentity, figures: Iterable[ClientFigure]) -> None:
        """Take in what one push holds."""
        for figure in figures:
            if not self._take(client, figure):
                self.dropped_count += 1

    def _take(self, client: ClientIdentity, figure: ClientFigure) -> bool:
        name = _family_name(figure)
        if self._is_counter.get(name, figure.is_counter) != figure.is_counter:
            return False
        key = _SeriesKey(client.instance_id, _labels_of(client, figure.labels))
        values = self._values.get(name, {})
        own = self._of_client.setdefault(client.instance_id, set())
        if key not in values:
            if self._count >= SERIES_MAX or len(own) >= SERIES_OF_CLIENT_MAX:
                return False
            self._count += 1
            own.add((name, key))
            self._is_counter[name] = figure.is_counter
            self._values.setdefault(name, values)
        before = values.get(key, 0.0) if figure.is_delta else 0.0
        values[key] = before + figure.value
        return True

    def forget(self, instance_id: Uuid) -> None:
        """Remove the client with its figures."""
        for name, key in self._of_client.pop(instance_id, ()):
            del self._values[name][key]
            self._count -= 1
            if not self._values[name]:
                del self._values[name], self._is_counter[name]

    def families(self) -> Iterator[ClientFamily]:
        """One family for each name, sorted."""
        for name, is_counter in sorted(self._is_counter.items()):
            values = list(self._values.get(name, {}).items())
            labels = sorted({label for key, _value in values for label, _text in key.labels})
            samples = [
                (tuple(dict(key.labels).get(label, "") for label in labels), value)
                for key, value in values
            ]
            yield ClientFamily(name, is_counter, tuple(labels), samples)


def _family_name(figure: ClientFigure) -> str:
    bare = _ILLEGAL.sub("_", figure.name.removeprefix("org.apache.kafka."))[:_NAME_MAX]
    end = "_total" if figure.is_counter and not bare.endswith("_total") else ""
    return f"{_PREFIX}{bare}{end}"


def _labels_of(client: ClientIdentity, pairs: LabelPairs) -> LabelPairs:
    """Return the client's own labels, and at most eight of the figure's labels."""
    own = (client.client_id, uuid_to_text(client.instance_id), client.software_name)
    given = {_label_name(name): text[:_TEXT_MAX] for name, text in pairs[:_LABELS_MAX]}
    given.update(zip(_OWN_LABELS, (text[:_TEXT_MAX] for text in own), strict=True))
    return tuple(sorted(given.items()))


def _label_name(name: str) -> str:
    bare = _ILLEGAL.sub("_", name)[:_TEXT_MAX]
    # Prometheus reserves names with two underscores, and a name must not begin with a digit.
    return bare if re.match("[a-zA-Z]", bare) else f"label_{bare.lstrip('_')}"
