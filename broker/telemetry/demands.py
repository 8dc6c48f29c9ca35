"""Which metrics one client is asked for. Pure.

Every subscription whose patterns match the client adds its metrics; the shortest interval counts.
The subscription id follows from what is asked for and from the client's instance id alone, so
that a client may push to one broker what another broker has asked it for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.ids import Uuid, uuid_to_text
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.configs.client_metrics import MetricsSubscription

DEFAULT_INTERVAL_MS = 300_000
EVERY_METRIC = "*"
# A client must not make a broker match or keep a text of any length.
_TEXT_MAX = 255
_SIGN = 1 << 31


class ClientIdentity(NamedTuple):
    """What a subscription can match a client by."""

    instance_id: Uuid
    client_id: str
    software_name: str
    software_version: str
    source_address: str
    source_port: str

    def attributes(self) -> dict[str, str]:
        """By the names that stand in the setting ``match``."""
        texts = {
            "client_instance_id": uuid_to_text(self.instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.source_address,
            "client_source_port": self.source_port,
        }
        return {name: text[:_TEXT_MAX] for name, text in texts.items()}


class Demand(NamedTuple):
    """What one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


def demand_of(subscriptions: Iterable[MetricsSubscription], client: ClientIdentity) -> Demand:
    """What the client is asked for by all subscriptions together."""
    attributes = client.attributes()
    matching = [one for one in subscriptions if one.matches(attributes)]
    names = {name for one in matching for name in one.metrics}
    metrics = (EVERY_METRIC,) if EVERY_METRIC in names else tuple(sorted(names))
    interval_ms = min((one.interval_ms for one in matching), default=DEFAULT_INTERVAL_MS)
    text = f"{','.join(metrics)} {interval_ms}".encode()
    number = crc32c(text + client.instance_id)
    return Demand(metrics, interval_ms, number - 2 * _SIGN if number & _SIGN else number)
