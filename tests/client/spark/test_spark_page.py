"""docs/spark.md: its programs run unchanged, and its table has every option."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from ottla.client.spark.options import READING
from tests.client.spark.support.topics import fill
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")


def test_every_option_is_in_the_table() -> None:
    """Users cannot find an option that is not documented."""
    table = PAGE.partition("## Options")[2].partition("\n## ")[0]

    named = set(re.findall(r"`([A-Za-z.]+)`", table))
    assert set(READING) <= named


@pytest.mark.timeout(1_800)
def test_its_sql_runs(spark: SparkSession, broker: str, topic: str) -> None:
    """A view reads and writes; a table is what the page says it is."""
    fill(broker, topic, 5)
    (text,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    text = text.replace("127.0.0.1:9092", broker).replace("'orders'", f"'{topic}'")
    create, count, insert = text.strip().removesuffix(";").split(";\n")

    spark.sql(create)
    try:
        assert [tuple(row) for row in spark.sql(count).collect()] == [(0, 5)]
        spark.sql(insert)
        # Spark plans a view once.
        spark.sql(create)
        assert [tuple(row) for row in spark.sql(count).collect()] == [(0, 6)]
    finally:
        spark.catalog.dropTempView("orders_now")
    table = create.replace("OR REPLACE TEMPORARY VIEW orders_now", "TABLE orders_then")
    spark.sql(table)
    try:
        with pytest.raises(PySparkException, match=r"servers is missing.*create a temporary view"):
            spark.sql("select * from orders_then").collect()
    finally:
        spark.sql("drop table orders_then")


@pytest.mark.timeout(1_800)
def test_its_programs_run(
    spark: SparkSession,
    broker: str,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The programs run one after the other, with another address, topic and folder."""
    fill(broker, topic, 5)
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    for program in programs:
        text = program.replace("127.0.0.1:9092", broker).replace('"orders"', f'"{topic}"')
        exec(text.replace("/data", str(tmp_path)), names)

    assert len(programs) == 4
    printed = capsys.readouterr().out
    assert "|offset|" in printed
    # Nothing is as late as that noon but what was just written.
    assert printed.rstrip().endswith("5")
    assert names["query"].exception() is None
    assert names["spark"] is spark
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 5
