"""The use cases of an activity stream, each as a small pipeline over a few records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.spark.jobs.aggregate import views
from tests.client.spark.jobs.pipelines import KEPT, example, send
from tests.client.spark.support.topics import frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.requirement("OPS-09"), pytest.mark.timeout(1_800)]


def view(member: str, page: str) -> dict[str, Any]:
    return {"member": member, "page": page}


def test_a_news_feed_has_the_newest_of_those_one_follows(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """The accounts that a member follows are a table that changes: the last entry counts."""
    pipeline = example("pipelines/news_feed")
    activities, follows = new_topic(**KEPT), new_topic(**KEPT)
    done = [("ann", "likes", "a"), ("bob", "likes", "b"), ("cid", "posts", "c")]
    events = [
        (minute, {"member": member, "verb": verb, "object": thing})
        for minute, (member, verb, thing) in enumerate(done)
    ]
    send(broker, activities, events)
    send(broker, follows, [(0, ["cid"]), (1, ["ann", "bob"])], key=b"dot")

    found = pipeline.feeds(
        pipeline.activities(frame(spark, broker, subscribe=activities)),
        pipeline.follows(frame(spark, broker, subscribe=follows)),
    ).collect()

    (row,) = found
    assert row.reader == "dot"
    assert [(one.member, one.object) for one in row.feed] == [("bob", "b"), ("ann", "a")]


def test_pages_are_ranked_by_their_views(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """Counting is easy; the places are what is shown."""
    topic = new_topic(**KEPT)
    seen = [("ann", "/x"), ("bob", "/x"), ("ann", "/y"), ("ann", "/y"), ("ann", "/z")]
    send(broker, topic, [(1, view(*one)) for one in seen])

    rows = example("pipelines/ranking").ranking(views(frame(spark, broker, subscribe=topic)))

    assert [(row.rank, row.page, row.views, row.members) for row in rows.collect()] == [
        (1, "/x", 2, 2),
        (1, "/y", 2, 1),
        (3, "/z", 1, 1),
    ]


def test_a_member_that_is_too_fast_is_found(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """By views in a minute, or by different pages; the same views over an hour are a reader."""
    topic = new_topic(**KEPT)
    fast = [(1, view("robot", "/same"))] * 9
    wide = [(1, view("crawler", f"/{number}")) for number in range(6)]
    slow = [(minute, view("reader", f"/{minute}")) for minute in range(9)]
    send(broker, topic, [*fast, *wide, *slow])

    found = example("pipelines/crawlers").over_limit(
        views(frame(spark, broker, subscribe=topic)), views_max=8, pages_max=5
    )

    assert {(row.member, row.views, row.pages) for row in found.collect()} == {
        ("robot", 9, 1),
        ("crawler", 6, 6),
    }


def test_a_service_out_of_bounds_is_an_alert(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """A service with a single failed request raises no alert."""
    pipeline = example("pipelines/monitoring")
    topic = new_topic(**KEPT)
    requests = [("web", 500 if number < 3 else 200, 10.0) for number in range(30)]
    requests += [("db", 200, 900.0) for _ in range(30)]
    requests += [("rare", 500, 1.0), ("mail", 200, 10.0)]
    events = [
        (1, {"service": service, "status": status, "took_ms": took})
        for service, status, took in requests
    ]
    send(broker, topic, events)

    rows = pipeline.alerts(pipeline.figures(frame(spark, broker, subscribe=topic))).collect()

    assert {(row.service, row.why, row.requests) for row in rows} == {
        ("web", "errors", 30),
        ("db", "latency", 30),
    }


def test_a_report_is_made_of_loaded_rows(spark: SparkSession) -> None:
    """Days are days of the records, whenever the report is made."""
    from_spark = spark.sql(
        """
        select 'orders' as topic, timestamp_millis(at) as timestamp, cast(value as binary) as value
        from values
          (1000, '{"customer": "a", "cents": 1050, "country": "DE"}'),
          (2000, '{"customer": "a", "cents": 50, "country": "DE"}'),
          (86400000, '{"customer": "b", "cents": 7, "country": "CZ"}')
          as orders(at, value)
        """
    )

    rows = example("pipelines/reporting").report(from_spark).collect()

    assert [
        (str(row.day), row.country, row.orders, row.customers, str(row.revenue)) for row in rows
    ] == [("1970-01-01", "DE", 2, 1, "11.00"), ("1970-01-02", "CZ", 1, 1, "0.07")]
