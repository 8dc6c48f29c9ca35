"""Reading and writing where clients log in: executors need a delegation token, and no password."""

from __future__ import annotations

import pickle
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, StructType

from ottla import Acl, Cluster
from ottla.client.spark.reader import BatchReader
from ottla.client.spark.stream_reader import StreamReader
from ottla.client.spark.stream_writer import StreamWriter
from ottla.client.spark.writer import BatchWriter
from ottla.sync import Admin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# Of which Spark's own processes take the most on a busy machine; the minute was waited out.
AT_ONCE_S = 45.0
WRONG = r"(?i)login of .*etl.* failed|authentication"
SECRET = {"delegation.token.secret.key": "secret-of-the-cluster"}
VALUE = StructType().add("value", BinaryType())
LOGIN = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "hunter2",
}


@pytest.mark.parametrize(
    "made",
    [
        BatchReader({**LOGIN, "subscribe": "t"}),
        StreamReader({**LOGIN, "subscribe": "t"}),
        BatchWriter({**LOGIN, "topic": "t"}, VALUE, False),
        StreamWriter({**LOGIN, "topic": "t"}, VALUE, False),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_sent_to_tasks_keeps_its_login(made: Any) -> None:
    """And all else that a task is to know; what is shown of it has no password."""
    sent = pickle.loads(pickle.dumps(made))
    assert sent._options == made._options
    assert sent._options.config.security.sasl.password.reveal() == "hunter2"
    assert getattr(sent, "_run_id", None) == getattr(made, "_run_id", None)
    assert getattr(sent, "_made_ms", None) == getattr(made, "_made_ms", None)
    assert "hunter2" not in repr(sent._options)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One broker that users log in to."""
    with Cluster(security="sasl_plaintext", users={"alice": "pw"}, settings=SECRET) as made:
        yield made


def by_token(cluster: Cluster) -> dict[str, str]:
    """The options of a job that has a token of alice and not her password."""
    security = cluster.client_settings("java", "alice")
    servers = str(security.pop("bootstrap.servers"))
    with Admin(servers, security=security) as admin:
        token = admin.tokens.create_token()
    login = {"security.protocol": "SASL_PLAINTEXT", **token.login_settings()}
    options = {f"kafka.{name}": value for name, value in login.items()}
    return {"kafka.bootstrap.servers": servers, **options}


def test_a_job_reads_and_writes_with_a_token(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """A batch and a stream, each in tasks of their own processes."""
    options = by_token(cluster)
    for topic in ("batch", "stream"):
        cluster.create_topic(topic, partitions=2)
    rows = [(f"k{number}", f"v{number}") for number in range(10)]
    frame = spark.createDataFrame(rows, "key string, value string")
    frame.write.format("ottla").mode("append").options(**options).option("topic", "batch").save()
    source = spark.readStream.format("ottla").options(**options).option("subscribe", "batch")
    query = (
        source.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("ottla")
        .options(**options)
        .option("topic", "stream")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    copied = spark.read.format("ottla").options(**options).option("subscribe", "stream").load()
    found = copied.selectExpr("cast(key as string)", "cast(value as string)").collect()
    assert sorted(map(tuple, found)) == rows


@pytest.fixture(scope="module")
def closed() -> Iterator[Cluster]:
    """One broker that encrypts, a user with rules and one without."""
    rules = [Acl("etl", "read,write,describe", topic="orders")]
    users = {"etl": "etl-password", "eve": "eve-password"}
    with Cluster(security="sasl_ssl", users=users, acls=rules) as made:
        made.create_topic("orders", partitions=2)
        yield made


def by_password(cluster: Cluster, user: str) -> dict[str, str]:
    """The options of a job that logs in as that user."""
    settings = cluster.client_settings("java", user)
    return {f"kafka.{name}": str(value) for name, value in settings.items()}


def test_a_batch_is_written_and_read_over_tls(spark: SparkSession, closed: Cluster) -> None:
    """In tasks of their own processes, which verify the broker and log in themselves."""
    options = by_password(closed, "etl")
    rows = [(f"k{number}", f"v{number}") for number in range(10)]
    frame = spark.createDataFrame(rows, "key string, value string")
    frame.write.format("ottla").mode("append").options(**options).option("topic", "orders").save()
    read = spark.read.format("ottla").options(**options).option("subscribe", "orders").load()
    found = read.selectExpr("string(key)", "string(value)").collect()

    assert sorted((row[0], row[1]) for row in found) == sorted(rows)


def test_a_user_without_rules_is_refused(spark: SparkSession, closed: Cluster) -> None:
    """With a sentence that names the reason, and without the password."""
    reader = spark.read.format("ottla").options(**by_password(closed, "eve"))
    with pytest.raises(Exception, match=r"(?i)authori[sz]") as refused:
        reader.option("subscribe", "orders").load().count()
    assert "-password" not in str(refused.value)


def wrong_password(cluster: Cluster) -> dict[str, str]:
    """The options of a job whose password is a mistake."""
    right = by_password(cluster, "etl")
    options = {name: value.replace("etl-password", "hunter2") for name, value in right.items()}
    assert options != right
    return options


def test_a_read_with_a_wrong_password_fails_at_once(spark: SparkSession, closed: Cluster) -> None:
    """A query used to look for a broker for a minute."""
    reader = spark.read.format("ottla").options(**wrong_password(closed))
    begun_s = time.monotonic()
    with pytest.raises(Exception, match=WRONG) as refused:
        reader.option("subscribe", "orders").load().count()

    assert time.monotonic() - begun_s < AT_ONCE_S
    assert "hunter2" not in str(refused.value)


@pytest.mark.interop
def test_a_write_with_a_wrong_password_fails_soon(spark: SparkSession, closed: Cluster) -> None:
    """Spark tries each task four times: half a minute, of which Spark itself takes the most."""
    frame = spark.createDataFrame([("k", "v")], "key string, value string")
    writer = frame.write.format("ottla").mode("append").options(**wrong_password(closed))
    begun_s = time.monotonic()
    with pytest.raises(Exception, match=WRONG) as refused:
        writer.option("topic", "orders").save()

    assert time.monotonic() - begun_s < 3 * AT_ONCE_S
    assert "hunter2" not in str(refused.value)
