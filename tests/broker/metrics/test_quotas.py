"""Figures of quotas: by user and client id, up to a bound."""

from __future__ import annotations

from ottla.broker.metrics.exposition import render
from ottla.broker.metrics.quotas import LABELLED_MAX, OTHERS, quota_families
from ottla.broker.quotas.quotas import Quotas
from ottla.broker.quotas.table import PRODUCE
from ottla.coordinator.metadata.changes import ConfigChanged
from ottla.coordinator.metadata.delta import apply_changes
from ottla.coordinator.metadata.image import Entity, MetadataImage
from tests.broker.support.node import HandClock


def limited(entity: Entity) -> Quotas:
    """Quotas with one of 1000 bytes a second."""
    quotas = Quotas(HandClock())
    change = ConfigChanged(entity, {PRODUCE: "1000"})
    quotas.on_metadata(apply_changes(MetadataImage("c"), [change]))
    return quotas


def use(quotas: Quotas, client_id: str, size_bytes: float) -> None:
    limits = quotas.limits_of("User:u", client_id)
    assert limits is not None
    assert limits.produce is not None
    limits.produce.spend(size_bytes, quotas.now_ms())
    limits.produce.throttled_ms += 2_000


def test_use_and_holds_are_shown_with_their_quota() -> None:
    """The user is a label where the quota is the user's, the client id is not."""
    quotas = limited(Entity("users", "u"))
    use(quotas, 'a"b', 700)
    page = "".join(render(quota_families(quotas)))

    labels = '{quota="producer_byte_rate",user="u",client_id=""}'
    assert f"ottla_quota_used_total{labels} 700.0\n" in page
    assert f"ottla_quota_throttle_seconds_total{labels} 2.0\n" in page
    assert f"ottla_quota_rate{labels} 1000.0\n" in page


def test_invented_client_ids_do_not_make_labels_without_end() -> None:
    """A label for each would fill the memory of whatever stores the figures; none gets lost."""
    quotas = limited(Entity("clients", "<default>"))
    for number in range(5_000):
        use(quotas, f"client-{number}", 1)
    use(quotas, "x" * 30_000, 1)
    used, _held, _rate = quota_families(quotas)
    samples = list(used.samples)

    assert len(samples) <= LABELLED_MAX + 1
    assert sum(value for _labels, value in samples if isinstance(value, float)) == 5_001
    assert samples[-1][0] == (PRODUCE, OTHERS, OTHERS)
    assert max(len(labels[2]) for labels, _value in samples) <= 64
