"""``ottla cluster api-versions`` and ``log-dirs``: what single brokers report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from ottla.client.cli.output import Cell, json_document, table, write
from ottla.client.cli.progress import amount
from ottla.client.cli.run import CommandError, sentence
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ottla.client.admin import Admin
    from ottla.client.administration.brokers import LogDirView
    from ottla.wire.api import VersionRange

Answer = TypeVar("Answer")


def sorted_out(answers: Mapping[int, Answer | ClientError]) -> tuple[dict[int, Answer], list[str]]:
    """The answers, and a sentence for each broker that did not answer."""
    failures = []
    found: dict[int, Answer] = {}
    for node_id, answer in answers.items():
        if isinstance(answer, ClientError):
            failures.append(f"broker {node_id}: {sentence(answer)}")
        else:
            found[node_id] = answer
    return found, failures


def name_of(key: int) -> str:
    """An API's name, or its number if it is unknown."""
    try:
        return ApiKey(key).name
    except ValueError:
        return str(key)


async def show_api_versions(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write one line per API, with each broker's versions where they differ."""
    found, failures = sorted_out(await admin.brokers.api_versions(arguments.brokers))
    if arguments.format == "json":
        write(
            json_document(
                [
                    {
                        "broker": node_id,
                        "apis": [
                            {"key": key, "name": name_of(key), "first": one.first, "last": one.last}
                            for key, one in sorted(versions.items())
                        ],
                    }
                    for node_id, versions in found.items()
                ]
            )
        )
    elif found:
        write(_versions_text(found))
    if failures:
        raise CommandError("; ".join(failures))
    return 0


def _versions_text(found: dict[int, dict[int, VersionRange]]) -> str:
    keys = sorted({key for versions in found.values() for key in versions})
    rows: list[list[Cell]] = []
    are_same = len({tuple(sorted(versions.items())) for versions in found.values()}) == 1
    columns = dict(list(found.items())[:1]) if are_same else found
    for key in keys:
        cells: list[Cell] = [key, name_of(key)]
        for versions in columns.values():
            one = versions.get(key)
            cells.append(None if one is None else f"{one.first} to {one.last}")
        rows.append(cells)
    heads = ["VERSIONS"] if are_same else [f"BROKER-{node_id}" for node_id in columns]
    return table(["KEY", "REQUEST", *heads], rows)


async def show_log_dirs(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write one line per directory and topic, or per directory and partition."""
    answers = await admin.brokers.log_dirs(arguments.brokers, arguments.topics or None)
    found, failures = sorted_out(answers)
    directories = [one for node_id in sorted(found) for one in found[node_id]]
    failures += [
        f"broker {one.broker_id} {one.path}: {sentence(one.error)}"
        for one in directories
        if one.error is not None
    ]
    if arguments.format == "json":
        write(json_document([_directory(one) for one in directories]))
    elif directories:
        parts = [_disks_text(directories)]
        rows = _sizes(directories, by_partition=arguments.partitions)
        if rows:
            headings = ("BROKER", "DIRECTORY", "TOPIC", "PARTITION", "SIZE", "LAG")
            if not arguments.partitions:
                headings = ("BROKER", "DIRECTORY", "TOPIC", "PARTITIONS", "SIZE", "LAG")
            parts.append(table(headings, rows))
        write("\n".join(parts))
    if failures:
        raise CommandError("; ".join(failures))
    return 0


def _directory(one: LogDirView) -> dict[str, object]:
    return {
        "broker": one.broker_id,
        "path": one.path,
        "error": None if one.error is None else one.error.code.name,
        "total_bytes": one.total_bytes if one.total_bytes >= 0 else None,
        "usable_bytes": one.usable_bytes if one.usable_bytes >= 0 else None,
        "replicas": [
            {
                "topic": replica.partition.topic,
                "partition": replica.partition.partition,
                "size_bytes": replica.size_bytes,
                "lag": replica.lag,
                "future": replica.is_future,
            }
            for replica in one.replicas
        ],
    }


def _disks_text(directories: list[LogDirView]) -> str:
    rows = [
        (
            one.broker_id,
            one.path,
            len(one.replicas),
            amount(sum(replica.size_bytes for replica in one.replicas), "bytes"),
            amount(one.usable_bytes, "bytes") if one.usable_bytes >= 0 else None,
            amount(one.total_bytes, "bytes") if one.total_bytes >= 0 else None,
        )
        for one in directories
    ]
    return table(("BROKER", "DIRECTORY", "REPLICAS", "SIZE", "FREE", "DISK"), rows)


def _sizes(directories: list[LogDirView], *, by_partition: bool) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for one in directories:
        if by_partition:
            rows += [
                [one.broker_id, one.path, *replica.partition, size(replica.size_bytes), replica.lag]
                for replica in one.replicas
            ]
            continue
        sizes: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        lags: Counter[str] = Counter()
        for replica in one.replicas:
            topic = replica.partition.topic
            sizes[topic] += replica.size_bytes
            counts[topic] += 1
            lags[topic] = max(lags[topic], replica.lag)
        rows += [
            [one.broker_id, one.path, topic, counts[topic], size(sizes[topic]), lags[topic]]
            for topic in sorted(counts)
        ]
    return rows


def size(number: int) -> str:
    """A short text for a number of bytes."""
    return amount(number, "bytes")


async def unregister(admin: Admin, arguments: argparse.Namespace) -> int:
    """Make the cluster forget a broker that will not come back."""
    try:
        await admin.brokers.unregister(arguments.broker)
    except RequestRefused as error:
        if error.code != ErrorCode.BROKER_ID_NOT_REGISTERED:
            raise
        cluster = await admin.describe_cluster()
        known = ", ".join(str(one.node_id) for one in cluster.brokers)
        raise CommandError(
            f"the cluster knows no broker {arguments.broker} and keeps nothing for it, so there is "
            f"nothing to do; it has {known}"
        ) from error
    text = f"the cluster keeps nothing more for broker {arguments.broker}"
    if arguments.format == "json":
        write(json_document({"unregistered": arguments.broker}))
    else:
        write(f"{text}\n")
    return 0
