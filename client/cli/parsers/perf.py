"""The command line of ``ottla perf``."""

from __future__ import annotations

from functools import partial

from ottla.client.cli.arguments import INT32_MAX, Parser, add_verbs, checked, natural, positive
from ottla.client.cli.parsers.produce import add_sending_options

RECORD_BYTES = 100
# The largest request that a broker accepts (socket.request.max.bytes).
RECORD_BYTES_MAX = 100 * 1024 * 1024
RECORDS = 100_000
LATENCY_RECORDS = 1_000
# The producer's memory for batches.
BATCH_BYTES_MAX = 32 * 1024 * 1024


def parser() -> Parser:
    """The command line, as ``ottla perf --help`` shows it."""
    made = Parser(
        prog="ottla perf",
        description="Measure how fast a cluster accepts and returns records, from here.",
        epilog="example: ottla perf produce -n 1000000 --size 100 --batch",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    produce = verb(
        "produce", "measure how fast records are produced", "-n 1000000 --size 1024 -z lz4"
    )
    _add_topic(produce, RECORDS)
    _add_load(produce)
    produce.add_argument(
        "--linger",
        metavar="MS",
        type=checked(partial(natural, most=INT32_MAX)),
        default=5,
        help="how long a batch waits to be filled (default 5)",
    )
    produce.add_argument(
        "--batch-bytes",
        metavar="N",
        type=checked(partial(positive, most=BATCH_BYTES_MAX)),
        default=64 * 1024,
        help="how large a batch may become (default 65536)",
    )
    _add_api(produce, "send many records in one call, as batches")
    consume = verb("consume", "measure how fast records are consumed", "orders -n 1000000 --batch")
    _add_topic(consume, RECORDS)
    _add_size(consume)
    _add_api(consume, "read undecoded batches instead of records")
    latency = verb("latency", "measure the latency from producer to consumer", "-n 1000 --size 100")
    _add_topic(latency, LATENCY_RECORDS)
    _add_load(latency)
    return made


def _add_topic(verb: Parser, count: int) -> None:
    verb.add_argument(
        "topic",
        metavar="TOPIC",
        nargs="?",
        help="an existing topic (default: a new one, which is deleted afterwards)",
    )
    verb.add_argument(
        "-n",
        "--records",
        metavar="N",
        type=checked(positive),
        default=count,
        help=f"how many records (default {count})",
    )


def _add_size(verb: Parser) -> None:
    verb.add_argument(
        "-s",
        "--size",
        metavar="BYTES",
        type=checked(partial(positive, most=RECORD_BYTES_MAX)),
        default=RECORD_BYTES,
        help=f"the size of a value (default {RECORD_BYTES})",
    )


def _add_load(verb: Parser) -> None:
    _add_size(verb)
    verb.add_argument(
        "-r",
        "--rate",
        metavar="N",
        type=checked(positive),
        help="at most that many records per second (default: no limit)",
    )
    add_sending_options(verb)


def _add_api(verb: Parser, purpose: str) -> None:
    verb.add_argument("--batch", action="store_true", help=purpose)
