"""``ottla mirror``: copies from other clusters, and translates offsets to the copies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.connection import given
from ottla.client.cli.output import json_document, json_line, table, write
from ottla.client.cli.run import CommandError, UsageError, run
from ottla.client.cli.settings import CLIENT_ID, command_config
from ottla.client.mirror.groups import carry_over, wanted_groups
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.notebook import read_notes
from ottla.client.mirror.settings import MirrorSettings, MirrorSource, from_document
from ottla.client.mirror.translation import Notes
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import ClientConfig
from ottla.client.settings.profiles import read_properties
from ottla.wire.signals import hangups

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

BEGINNING = 0


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments, is_busy=arguments.verb == "run")


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    match arguments.verb:
        case "run":
            return await copy(arguments)
        case "translate":
            return await translate(arguments)
    assert arguments.verb == "groups"
    return await carry_groups(arguments)


def settings_of(arguments: argparse.Namespace) -> MirrorSettings:
    """The settings from the options or the file. Raises UsageError."""
    try:
        if arguments.file is not None:
            if arguments.sources or arguments.topics:
                raise UsageError("sources and topics stand in the file or on the command line")
            document = tomllib.loads(Path(arguments.file).read_text("utf-8"))
            defaults = {"target": arguments.bootstrap, "properties": dict(given())}
            return from_document({**defaults, **document})
        if not arguments.sources or not arguments.topics:
            raise UsageError("name sources by --from ALIAS=HOST:PORT, and the topics to copy")
        configs = source_configs(arguments)
        return MirrorSettings(
            target=arguments.bootstrap,
            properties=given(),
            sources=tuple(
                MirrorSource(
                    alias=alias,
                    bootstrap=address,
                    topics=tuple(arguments.topics),
                    exclude=tuple(arguments.exclude),
                    rename=arguments.rename,
                    properties=configs.get(alias, {}),
                )
                for alias, address in arguments.sources
            ),
            name=arguments.name,
            exactly_once=arguments.exactly_once,
            mark=arguments.mark,
            grow=arguments.grow,
            compression=arguments.compression,
            replication_factor=arguments.replication_factor,
            sync_groups=tuple(arguments.sync_groups),
            refresh_ms=arguments.refresh * 1_000,
            report_ms=arguments.report * 1_000,
            session_timeout_ms=arguments.session_timeout * 1_000,
        )
    except ValueError as error:
        raise UsageError(f"{arguments.file}: {error}" if arguments.file else str(error)) from error


def source_configs(arguments: argparse.Namespace) -> dict[str, dict[str, str]]:
    """The settings for each source's clients. Raises UsageError and ProfileError."""
    known = [arguments.source] if arguments.verb == "groups" else arguments.sources
    for alias, _file in arguments.source_configs:
        if alias not in dict(known):
            raise UsageError(f"--from-config names {alias!r}, which --from does not")
    return {alias: read_properties(Path(file)) for alias, file in arguments.source_configs}


async def copy(arguments: argparse.Namespace) -> int:
    """Copy until the mirror ends, or by Ctrl-C, SIGTERM or SIGHUP; always ends gracefully."""
    settings = settings_of(arguments)
    tell_of_events()
    mirror = Mirror(settings, until_end=arguments.exit)
    try:
        with _told_by_signals(mirror.stop):
            async with mirror:
                waiting = asyncio.ensure_future(mirror.wait())
                try:
                    while not waiting.done():
                        await asyncio.wait([waiting], timeout=settings.report_ms / 1_000)
                        if not waiting.done():
                            report(mirror, arguments.format)
                    await waiting
                finally:
                    waiting.cancel()
    finally:
        report(mirror, arguments.format)
    return 0


@contextlib.contextmanager
def _told_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, *hangups())
    try:
        for one in signals:
            loop.add_signal_handler(one, stop)
    except NotImplementedError:
        yield
        return
    try:
        yield
    finally:
        # uvloop would leave the process deaf to these signals when its loop closes.
        for one in signals:
            loop.remove_signal_handler(one)


def tell_of_events() -> None:
    """Log to standard error: what was created on the target, failures and retries."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    events = logging.getLogger("ottla.client.mirror")
    events.addHandler(handler)
    events.setLevel(logging.INFO)


def report(mirror: Mirror, form: str) -> None:
    """Write one line for each source."""
    for progress in mirror.progress():
        write(json_line(progress._asdict()) if form == "json" else f"{progress.line()}\n")


async def translate(arguments: argparse.Namespace) -> int:
    """Translate one offset."""
    notes = await notes_of(arguments.bootstrap, arguments.alias)
    where, offset = arguments.partition, arguments.offset
    place = notes.find(where, offset)
    if place is None and (topic := notes.target_topic(where)) is not None:
        # Everything up to there was copied before the oldest note.
        place = topic, BEGINNING
    if place is None:
        raise CommandError(
            f"nothing of topic {where.topic!r} partition {where.partition} of {arguments.alias!r} "
            "has been copied here"
        )
    topic, target_offset = place
    if arguments.format == "json":
        found = {"topic": topic, "partition": where.partition, "offset": target_offset}
        write(json_document(found))
    else:
        write(f"{topic}:{where.partition} {target_offset}\n")
    return 0


async def carry_groups(arguments: argparse.Namespace) -> int:
    """Copy the positions of groups to the target."""
    alias, bootstrap = arguments.source
    properties = source_configs(arguments).get(alias, {})
    source_config = ClientConfig(client_id=CLIENT_ID).with_properties(
        properties, ignore_others=True
    )
    notes = await notes_of(arguments.bootstrap, alias)
    async with (
        Admin(bootstrap, source_config) as source,
        Admin(arguments.bootstrap, command_config()) as target,
    ):
        groups = await wanted_groups(source, tuple(arguments.groups))
        if not groups:
            raise CommandError(f"{alias} has no such group")
        carried = await carry_over(source, target, notes, groups, is_trial=arguments.dry_run)
    if arguments.format == "json":
        rows = [
            {
                "group": one.group,
                "topic": one.where.topic,
                "partition": one.where.partition,
                "offset": one.offset,
                "target_topic": one.target.topic if one.target else None,
                "target_offset": one.target_offset,
                "status": one.outcome,
            }
            for one in carried
        ]
        write(json_document(rows))
        return 0
    headings = ("GROUP", "SOURCE", "OFFSET", "TARGET", "OFFSET", "STATUS")
    write(
        table(
            headings,
            [
                (
                    one.group,
                    f"{one.where.topic}:{one.where.partition}",
                    one.offset,
                    f"{one.target.topic}:{one.target.partition}" if one.target else None,
                    one.target_offset,
                    one.outcome,
                )
                for one in carried
            ],
        )
    )
    return 0


async def notes_of(bootstrap: str, alias: str) -> Notes:
    """The target's notes of that source. Raises CommandError if there are none."""
    found = await read_notes(bootstrap, real_environment(), given())
    if not any(note.source == alias for note in found):
        aliases = sorted({note.source for note in found})
        known = f"it has copies of {', '.join(aliases)}" if aliases else "it has none of any"
        raise CommandError(f"the cluster at {bootstrap} has no copies of {alias!r}; {known}")
    return Notes.of(alias, found)
