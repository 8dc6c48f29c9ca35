"""``ottla reassign``: moves replicas between brokers.

A plan is the JSON that Kafka's own tool reads and writes: ``{"version": 1, "partitions": [{"topic":
..., "partition": ..., "replicas": [...]}]}``. ``generate`` writes one and changes nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client.admin import Admin
from ottla.client.administration.placements import spread
from ottla.client.cli.arguments import INT32_MAX, natural, partition_number
from ottla.client.cli.cluster.throttles import throttle, unthrottle
from ottla.client.cli.output import json_document, write
from ottla.client.cli.run import CommandError, run, sentence
from ottla.client.cli.settings import command_config
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.administration.placements import ReplicaMove
    from ottla.wire.errors import RequestRefused

    Plan = dict[TopicPartition, tuple[int, ...]]

STANDARD_INPUT = "-"


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    plan = {} if arguments.verb == "generate" else read_plan(arguments.plan)
    async with Admin(arguments.bootstrap, command_config()) as admin:
        match arguments.verb:
            case "generate":
                return await _generate(admin, arguments)
            case "execute":
                if arguments.throttle is not None:
                    await throttle(admin, plan, arguments.throttle)
                return _report(arguments, await admin.placements.move(plan), "begun")
            case "cancel":
                outcomes = await admin.placements.move(dict.fromkeys(plan))
                return _report(arguments, outcomes, "cancelled")
        assert arguments.verb == "verify"
        return await _verify(admin, arguments, plan)


def read_plan(place: str) -> Plan:
    """Read a plan from a file. Raises CommandError."""
    try:
        text = sys.stdin.read() if place == STANDARD_INPUT else Path(place).read_text("utf-8")
        found: dict[str, Any] = json.loads(text)
        return {
            TopicPartition(str(item["topic"]), partition_number(str(item["partition"]))): tuple(
                natural(str(node), INT32_MAX) for node in item["replicas"]
            )
            for item in found["partitions"]
        }
    except OSError as error:
        raise CommandError(f"cannot read {place}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CommandError(
            f"{place} is no plan: write one with 'ottla reassign generate TOPIC'"
        ) from None


async def _generate(admin: Admin, arguments: argparse.Namespace) -> int:
    live = [node.node_id for node in (await admin.describe_cluster()).brokers]
    brokers: list[int] = arguments.brokers or live
    missing = sorted(set(brokers) - set(live))
    if missing:
        raise CommandError(f"broker {missing[0]} is not there; these are: {_listed(live)}")
    partitions: list[dict[str, object]] = []
    for name in dict.fromkeys(arguments.topics):
        view = await admin.describe_topic(name)
        numbers = sorted(view.partitions)
        copies = max(len(view.partitions[number].replicas) for number in numbers)
        if copies > len(brokers):
            raise CommandError(
                f"topic {name!r} has {copies} replicas, which {len(brokers)} brokers cannot hold"
            )
        for number, replicas in zip(numbers, spread(brokers, copies, len(numbers)), strict=True):
            partitions.append({"topic": name, "partition": number, "replicas": replicas})
    write(json_document({"version": 1, "partitions": partitions}))
    return 0


async def _verify(admin: Admin, arguments: argparse.Namespace, plan: Plan) -> int:
    moves = await admin.placements.moves(plan)
    states: dict[TopicPartition, str] = {}
    topics = {topic.name: topic for topic in await admin.list_topics()}
    for where, replicas in plan.items():
        topic = topics.get(where.topic)
        part = None if topic is None else topic.partitions.get(where.partition)
        if where in moves:
            states[where] = _under_way(moves[where])
        elif topic is None:
            states[where] = "there is no such topic"
        elif part is None:
            states[where] = "there is no such partition"
        elif part.replicas == replicas:
            states[where] = "done"
        else:
            states[where] = f"on {_listed(part.replicas)}, and no move is under way"
    if arguments.format == "json":
        write(
            json_document(
                [
                    {"topic": where.topic, "partition": where.partition, "state": state}
                    for where, state in sorted(states.items())
                ]
            )
        )
    else:
        write("".join(f"{where}: {state}\n" for where, state in sorted(states.items())))
    if any(state != "done" for state in states.values()):
        return 1
    await unthrottle(admin, (where.topic for where in plan))
    return 0


def _under_way(move: ReplicaMove) -> str:
    steps = []
    if move.adding:
        steps.append(f"adding {_listed(move.adding)}")
    if move.removing:
        steps.append(f"removing {_listed(move.removing)}")
    return f"under way: {', '.join(steps)}" if steps else "under way"


def _report(
    arguments: argparse.Namespace,
    outcomes: dict[TopicPartition, RequestRefused | None],
    done: str,
) -> int:
    """Write what was done; all failures go to standard error in one sentence."""
    failed = {where: refused for where, refused in outcomes.items() if refused is not None}
    if arguments.format == "json":
        write(
            json_document(
                [
                    {
                        "topic": where.topic,
                        "partition": where.partition,
                        "status": "failed" if where in failed else done,
                        "error": sentence(failed[where]) if where in failed else None,
                    }
                    for where in sorted(outcomes)
                ]
            )
        )
    else:
        write("".join(f"{done} {where}\n" for where in sorted(outcomes) if where not in failed))
    if failed:
        raise CommandError("; ".join(_reason(*item) for item in sorted(failed.items())))
    return 0


def _reason(where: TopicPartition, refused: RequestRefused) -> str:
    if refused.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
        return f"{where}: no move is under way"
    return f"{where}: {sentence(refused)}"


def _listed(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
