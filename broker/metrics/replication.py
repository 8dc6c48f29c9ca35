"""How replication goes: changes of in-sync sets made here, and what is fetched from leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import GAUGE, Family, counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.following.fetchers import Fetchers
    from ottla.broker.metrics.exposition import Sample
    from ottla.broker.partitions.isr_writer import IsrWriter

_MANAGER = "kafka_server_replicamanager_"
_FETCHERS = "kafka_server_replicafetchermanager_"


def isr_families(writer: IsrWriter) -> Iterator[Family]:
    """Changes of the in-sync sets of partitions that are led here."""
    yield counter(
        f"{_MANAGER}isrshrinks_total", "Times that an in-sync set has shrunk.", writer.shrink_count
    )
    yield counter(
        f"{_MANAGER}isrexpands_total", "Times that an in-sync set has grown.", writer.expand_count
    )


def fetcher_families(fetchers: Fetchers) -> Iterator[Family]:
    """What this broker follows, and how far it is behind."""
    followed = list(fetchers.followed)
    yield gauge(
        f"{_FETCHERS}maxlag",
        "Records that the follower furthest behind has still to fetch.",
        max((one.lag or 0 for one in followed), default=0),
    )
    yield gauge(
        f"{_FETCHERS}failedpartitionscount",
        "Partitions whose last fetch has failed.",
        sum(one.failure_count > 0 for one in followed),
    )
    yield gauge("ottla_fetchers", "Connections that fetch from leaders.", len(list(fetchers)))

    def lags() -> Iterator[Sample]:
        for one in followed:
            if one.lag is not None:
                yield (one.partition.topic, str(one.partition.partition)), one.lag

    yield Family(
        GAUGE,
        "kafka_server_fetcherlagmetrics_consumerlag",
        "Records that the leader was ahead with at its last answer.",
        ("topic", "partition"),
        lags(),
    )
