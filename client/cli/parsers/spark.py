"""The command line of ``ottla spark``, and of its jobs as modules."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_verbs, checked, setting
from ottla.client.cli.position_specs import read_time


def topics(text: str) -> list[str]:
    """Read ``a,b``. Raises ValueError."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise ValueError(f"{text!r} is not of the form TOPIC or TOPIC,TOPIC")
    return list(dict.fromkeys(found))


def parser() -> Parser:
    """The command line, as ``ottla spark --help`` shows it."""
    made = Parser(
        prog="ottla spark",
        description="Run a pipeline on Apache Spark, which the extra `spark` of Ottla brings.",
        epilog="example: ottla spark load --topics orders --to /data/orders",
        allow_abbrev=False,
    )
    verb = add_verbs(made, has_property=False)
    _add_load(
        verb(
            "load",
            "load new records of topics as Parquet",
            "--topics orders,clicks --to /data/lake --window day",
        )
    )
    _add_copy(
        verb(
            "copy",
            "copy topics to another cluster, once",
            "-b west:9092 --topics orders --to-cluster central:9092",
        )
    )
    _add_transform(
        verb(
            "transform",
            "transform topics into another topic, exactly once",
            "--topics orders --to kept --where 'value is not null' --checkpoint /data/cp",
        )
    )
    _add_aggregate(
        verb(
            "aggregate",
            "count the page views of each member in each window",
            "--topics views --to counts --window '1 hour' --checkpoint /data/cp",
        )
    )
    return made


def _add_all(job: Parser) -> None:
    job.add_argument(
        "--topics",
        metavar="TOPIC,TOPIC",
        type=checked(topics),
        required=True,
        help="what to read",
    )
    job.add_argument(
        "--master",
        metavar="MASTER",
        help="where Spark runs, such as local[4] or spark://HOST:7077 (default: all cores of this "
        "machine, or as it was submitted)",
    )
    job.add_argument(
        "--conf",
        dest="settings",
        metavar="NAME=VALUE",
        type=checked(setting),
        action="append",
        default=[],
        help="a setting of Spark's, such as spark.driver.memory=4g; may be given several times",
    )
    job.add_argument(
        "-X",
        "--option",
        dest="options",
        metavar="NAME=VALUE",
        type=checked(setting),
        action="append",
        default=[],
        help="an option of the data source, such as kafka.client.id=x; may be given several times",
    )


def _add_load(job: Parser) -> None:
    _add_all(job)
    job.add_argument(
        "--to", metavar="PLACE", required=True, help="a directory, on any file system of Spark's"
    )
    job.add_argument(
        "--window",
        choices=("hour", "day", "none"),
        help="how rows are divided by their timestamps (default: as those that are there, else by "
        "hour)",
    )
    job.add_argument(
        "--until",
        metavar="TIME",
        type=checked(read_time),
        help="load records before that time (default: all available records)",
    )
    job.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        type=checked(read_time),
        help="load records from that time on again, in place of those loaded before",
    )
    job.add_argument(
        "--allow-loss",
        action="store_true",
        help="continue if retention has deleted records that were not loaded",
    )


def _add_copy(job: Parser) -> None:
    _add_all(job)
    job.add_argument(
        "--to-cluster", metavar="HOST:PORT", required=True, help="a broker of the other cluster"
    )
    job.add_argument(
        "--rename", metavar="PATTERN", default="{topic}", help="the name there (default {topic})"
    )


def _add_stream(job: Parser) -> None:
    _add_all(job)
    job.add_argument("--to", metavar="TOPIC", required=True, help="the topic to write")
    job.add_argument(
        "--checkpoint",
        metavar="PLACE",
        required=True,
        help="the checkpoint directory of this query",
    )
    job.add_argument(
        "--once", action="store_true", help="stop when all available records are processed"
    )
    job.add_argument(
        "--every", metavar="INTERVAL", help="how often, such as '10 seconds' (default: at once)"
    )
    job.add_argument(
        "--start",
        choices=("earliest", "latest"),
        default="earliest",
        help="where to begin without a checkpoint (default earliest)",
    )


def _add_transform(job: Parser) -> None:
    _add_stream(job)
    job.add_argument(
        "--where", metavar="SQL", help="which records: a Spark SQL expression over the columns"
    )
    job.add_argument(
        "--value", metavar="SQL", default="value", help="the new value (default value)"
    )
    job.add_argument("--key", metavar="SQL", default="key", help="the new key (default key)")


def _add_aggregate(job: Parser) -> None:
    _add_stream(job)
    job.add_argument(
        "--window", metavar="INTERVAL", default="1 hour", help="how long (default '1 hour')"
    )
    job.add_argument(
        "--late",
        metavar="INTERVAL",
        default="10 minutes",
        help="how late a view may come and still be counted (default '10 minutes')",
    )
