"""The examples of pipelines, run unchanged except for the session, which all tests share."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.sync.admin import Admin
from tests.client.spark.jobs.pipelines import (
    KEPT,
    Lasting,
    committed,
    example,
    patiently_call,
    send,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.requirement("OPS-09"), pytest.mark.timeout(1_800)]


class Stage:
    """Runs examples by their names and arguments."""

    def __init__(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self._spark = spark
        self._patch = monkeypatch

    def run(self, name: str, *arguments: str) -> None:
        module = example(f"pipelines/{name}")
        self._patch.setattr(module, "open_session", lambda *_: Lasting(self._spark))
        self._patch.setattr(sys, "argv", [f"{name}.py", *arguments])
        patiently_call(module.main)


@pytest.fixture
def stage(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(spark, monkeypatch)


def make(broker: str, *names: str) -> None:
    with Admin(broker) as admin:
        admin.create_topics([NewTopic(name, 1, configs=KEPT) for name in names])


def told(broker: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(one.value) for one in committed(broker, topic)]


def test_what_members_do_becomes_feeds_rankings_and_limits(
    stage: Stage, broker: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """From the topics that the examples name to those that they name."""
    make(broker, "activities", "follows", "feeds", "views", "limits")
    send(broker, "activities", [(1, {"member": "ann", "verb": "posts", "object": "x"})])
    send(broker, "follows", [(1, ["ann"])], key=b"bob")
    robot, later = {"member": "robot", "page": "/a"}, {"member": "ann", "page": "/b"}
    send(broker, "views", [*[(1, robot)] * 61, (10, later)])

    stage.run("news_feed", broker)
    stage.run("ranking", broker)
    stage.run("crawlers", broker, "--once", "--checkpoint", str(tmp_path / "cp"))

    (feed,) = told(broker, "feeds")
    assert [entry["object"] for entry in feed["feed"]] == ["x"]
    assert "/a" in capfd.readouterr().out
    (limit,) = told(broker, "limits")
    assert (limit["member"], limit["views"]) == ("robot", 61)


def test_what_services_and_customers_do_becomes_alerts_and_reports(
    stage: Stage, broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The report is made of rows as a load leaves them."""
    make(broker, "requests", "alerts")
    send(broker, "requests", [(1, {"service": "db", "status": 500, "took_ms": 1})] * 20)
    order = json.dumps({"customer": "a", "cents": 100, "country": "DE"})
    rows = spark.sql(f"select timestamp_millis(0) as timestamp, cast('{order}' as binary) as value")
    rows.write.parquet(str(tmp_path / "lake" / "load=00000001" / "topic=orders"))

    stage.run("monitoring", broker)
    stage.run("reporting", str(tmp_path / "lake"), str(tmp_path / "report"))

    (alert,) = told(broker, "alerts")
    assert (alert["service"], alert["why"]) == ("db", "errors")
    (report,) = (tmp_path / "report").glob("*.csv")
    assert report.read_text("utf-8").splitlines() == [
        "day,country,orders,customers,revenue",
        "1970-01-01,DE,1,1,1.00",
    ]
