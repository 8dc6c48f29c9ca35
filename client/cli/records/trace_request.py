"""``ottla trace produce`` and ``ottla trace fetch``: one request, and when each step was done."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.client.administration.request_tracing import RequestTraceClient
from ottla.client.cli.output import json_document, write
from ottla.client.cli.records.waterfall import picture, steps_of, unflushed
from ottla.client.cli.run import CommandError, run
from ottla.client.cli.settings import command_config
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import parse_addresses
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    import argparse

    from ottla.client.administration.request_tracing import SentRequest, TracedWay
    from ottla.client.cluster.metadata import PartitionView

ACKS = {"1": 1, "all": -1}
FETCH_BYTES_MAX = 1024 * 1024


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Send the request and write its way."""
    where = TopicPartition(arguments.topic, arguments.partition)
    # The brokers know the request by this name.
    client_id = f"ottla-trace-{uuid.uuid4().hex[:12]}"
    config = replace(command_config(), client_id=client_id)
    cluster = ClusterClient(real_environment(), parse_addresses(arguments.bootstrap), config)
    try:
        await cluster.refresh()
        tracer = RequestTraceClient(cluster, where)
        view = await _begin(tracer, where)
        if arguments.verb == "produce":
            sent, awaited = await _produce(tracer, view, arguments), view.isr
        else:
            sent, awaited = await _fetch(tracer, view, arguments), ()
        way = await tracer.way(sent, awaited)
    finally:
        cluster.close()
    api = arguments.verb.capitalize()
    if arguments.format == "json":
        write(json_document(document(way, where, api)))
    else:
        write(report(way, where, api, view))
    return 0


async def _begin(tracer: RequestTraceClient, where: TopicPartition) -> PartitionView:
    try:
        view = await tracer.begin()
    except RequestRefused as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CommandError(
                f"there is no partition {where.partition} of a topic {where.topic!r}"
            ) from error
        raise
    if not tracer.traces:
        raise CommandError(
            "no replica of this partition traces requests: brokers of Ottla do, from this version "
            "on"
        )
    return view


async def _produce(
    tracer: RequestTraceClient, view: PartitionView, arguments: argparse.Namespace
) -> SentRequest:
    key = None if arguments.key is None else os.fsencode(arguments.key)
    record = key, os.fsencode(arguments.value), tuple(arguments.headers)
    return await tracer.produce(view, record, ACKS[arguments.acks], 1000 * arguments.timeout)


async def _fetch(
    tracer: RequestTraceClient, view: PartitionView, arguments: argparse.Namespace
) -> SentRequest:
    offset, wait_ms = arguments.offset, 1000 * arguments.timeout
    return await tracer.fetch(view, offset, wait_ms, FETCH_BYTES_MAX)


def document(way: TracedWay, where: TopicPartition, api: str) -> dict[str, Any]:
    """The way as JSON."""
    return {
        "topic": where.topic,
        "partition": where.partition,
        "offset": way.sent.offset,
        "request": api,
        "took_ms": round(way.sent.answered_ms - way.sent.sent_ms, 3),
        "record_bytes": way.sent.record_bytes,
        "steps": [
            {"at_ms": round(one.at_ms, 3), "broker": one.node, "what": one.what}
            for one in steps_of(way, api)
        ],
        "clocks": {str(node): round(one.within_ms, 3) for node, one in way.clocks.items()},
    }


def report(way: TracedWay, where: TopicPartition, api: str, view: PartitionView) -> str:
    """The way as lines for a person."""
    took_ms = way.sent.answered_ms - way.sent.sent_ms
    text = f"{where.topic}-{where.partition} offset {way.sent.offset}: "
    text += f"{api} answered after {took_ms:.3f} ms, {way.sent.record_bytes} bytes of records\n"
    text += picture(steps_of(way, api), way)
    silent = sorted(set(view.replicas) - way.told.keys())
    if silent:
        text += f"not asked, because they are down or do not trace: {_brokers(silent)}\n"
    late = unflushed(way)
    if late:
        text += f"not flushed to disk yet, as no setting asks for it: {_brokers(late)}\n"
    return text


def _brokers(nodes: list[int]) -> str:
    return ", ".join(f"broker {node}" for node in nodes)
