"""A mirror: several links with one target.

    async with Mirror(settings) as mirror:
        await mirror.wait()

Guarantees and limits: docs/mirror.md.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Self

from ottla.client.admin import Admin
from ottla.client.mirror.groups import CARRIED, carry_over, wanted_groups
from ottla.client.mirror.link import MirrorLink
from ottla.client.mirror.notebook import read_notes
from ottla.client.mirror.settings import admin_config
from ottla.client.mirror.translation import Notes
from ottla.client.process.environment import Environment, real_environment
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from types import TracebackType

    from ottla.client.mirror.report import MirrorProgress
    from ottla.client.mirror.settings import MirrorSettings, MirrorSource

logger = logging.getLogger(__name__)


class Mirror:
    """Copies while its ``async with`` block runs. On exit, records that were read are delivered and
    the positions are stored. Unreachable clusters are waited for."""

    def __init__(
        self,
        settings: MirrorSettings,
        environment: Environment | None = None,
        *,
        until_end: bool = False,
    ) -> None:
        """``until_end``: copy only what exists at the start; then ``wait`` returns."""
        self._settings = settings
        self._environment = environment or real_environment()
        self._links = [
            MirrorLink(settings, source, self._environment, until_end=until_end)
            for source in settings.sources
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._groups: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        assert not self._tasks, "started twice"
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(link.run(), name=f"mirror {link.source.alias}") for link in self._links
        ]
        if self._settings.sync_groups:
            self._groups = loop.create_task(self._carry_groups(), name="mirror groups")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if self._groups is not None:
            self._groups.cancel()
            await asyncio.wait([self._groups])
        await asyncio.wait(self._tasks)

    def stop(self) -> None:
        """Stop all links; ``wait`` returns when the work in progress is done."""
        for link in self._links:
            link.stop()

    async def wait(self) -> None:
        """Wait for the end. If one link fails, stops the others, then raises its error."""
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        if any(task.done() and task.exception() is not None for task in self._tasks):
            self.stop()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            task.result()

    def progress(self) -> list[MirrorProgress]:
        """The progress of each source."""
        return [link.progress() for link in self._links]

    async def _carry_groups(self) -> None:
        while True:
            await self._environment.clock.sleep(self._settings.refresh_ms)
            for source in self._settings.sources:
                try:
                    await self._carry(source)
                except ClientError as error:
                    logger.warning(
                        "%s: positions of groups are not copied: %s", source.alias, error
                    )

    async def _carry(self, source: MirrorSource) -> None:
        settings, environment = self._settings, self._environment
        notes = Notes.of(
            source.alias, await read_notes(settings.target, environment, settings.properties)
        )
        async with (
            Admin(source.bootstrap, admin_config(source), environment) as from_admin,
            Admin(settings.target, admin_config(settings), environment) as to_admin,
        ):
            groups = await wanted_groups(from_admin, settings.sync_groups)
            # The positions of the mirror's own group are of no use on the target.
            groups = [group for group in groups if group != settings.group_of(source)]
            carried = await carry_over(from_admin, to_admin, notes, groups)
        stored = sum(one.outcome == CARRIED for one in carried)
        if stored:
            logger.info("%s: %d positions of groups copied", source.alias, stored)
