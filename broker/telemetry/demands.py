"""The metrics that the broker requests from one client. Pure.

Every subscription whose patterns match the client adds its metrics; the shortest interval applies.
The subscription id depends only on the requested metrics and the client's instance id, so that a
client may push to one broker the metrics that another one has requested.
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
# Limits the length of texts from clients that the broker stores and matches.
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
        """The client's attributes by the names used in the setting ``match``."""
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
    """Return the metrics that all subscriptions together request from the client."""
    attributes = client.attributes()
    matching = [one for one in subscriptions if one.matches(attributes)]
    names = {name for one in matching for name in one.metrics}
    metrics = (EVERY_METRIC,) if EVERY_METRIC in names else tuple(sorted(names))
    interval_ms = min((one.interval_ms for one in matching), default=DEFAULT_INTERVAL_MS)
    text = f"{','.join(metrics)} {interval_ms}".encode()
    number = crc32c(text + client.instance_id)
    return Demand(metrics, interval_ms, number - 2 * _SIGN if number & _SIGN else number)
