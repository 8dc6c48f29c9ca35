"""The examples of pipelines, loaded from their files, and records for them."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from ottla.client.settings.config import Isolation
from ottla.client.sync.consumer import Consumer
from ottla.client.sync.producer import Producer
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from pyspark.sql import SparkSession

MINUTE_MS = 60_000
# Otherwise retention removes records of 1970 before they are read.
KEPT = {"retention.ms": "-1"}
# Spark gives a Python process ten seconds to start, which a busy machine may need.
SLOW_START = "Python worker failed to connect back"
TRIES = 5


class Lasting:
    """A session that stays when a job is done."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Others need it."""


def patiently(
    perform: Callable[[SparkSession, argparse.Namespace], str],
    spark: SparkSession,
    arguments: argparse.Namespace,
) -> None:
    """Run a job that ends by itself."""
    patiently_call(lambda: perform(spark, arguments))


def patiently_call(work: Callable[[], object]) -> None:
    """Do it, again if that is only because Python was slow to start."""
    for tries_left in reversed(range(TRIES)):
        try:
            work()
        except PySparkException as error:
            if tries_left == 0 or SLOW_START not in str(error):
                raise
        else:
            return


def committed(broker: str, topic: str) -> list[Any]:
    """All records, partition by partition."""
    found: list[Any] = []
    with Consumer(broker, offset_reset="earliest", isolation=Isolation.READ_COMMITTED) as consumer:
        for where in consumer.partitions_of(topic):
            (end,) = consumer.end_offsets([where]).values()
            consumer.assign([where])
            while (consumer.position(where) or 0) < end:
                found += consumer.poll(100)
    return found


def example(name: str) -> ModuleType:
    """The module of that example."""
    spec = spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def send(
    broker: str, topic: str, events: Iterable[tuple[int, object]], key: bytes | None = None
) -> None:
    """Each event as JSON, at its minute."""
    with Producer(broker) as producer:
        for minute, event in events:
            value = json.dumps(event).encode()
            producer.send(topic, value, key=key, timestamp=minute * MINUTE_MS)
