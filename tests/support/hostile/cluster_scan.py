"""Looks for the passwords of a cluster's users in what its brokers log and have written.

Each cluster of the tests that has users, or secrets in its settings, is scanned when it stops.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ottla.broker.testing import cluster
from ottla.broker.testing.members import Members
from tests.support.hostile.secret_scan import files_on, hits, logged, passwords_of, secrets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.server.first_users import FirstUser
    from ottla.protocol.ports import Disk


def install() -> None:
    """From now on, in this process."""
    vars(cluster)["Members"] = ScannedMembers


class ScannedMembers(Members):
    """The brokers of a cluster in a test: what they log and have written is scanned at the end."""

    _scan: ExitStack | None = None

    async def start(
        self, disk: Disk, directory: str, first_users: Sequence[FirstUser] = ()
    ) -> None:
        self._scan = ExitStack()
        texts = self._scan.enter_context(logged())
        self._scan.callback(self._check, texts, disk, directory, first_users)
        await super().start(disk, directory, first_users)

    async def stop(self) -> None:
        await super().stop()
        scan, self._scan = self._scan, None
        if scan is not None:
            scan.close()

    def _check(
        self, texts: list[str], disk: Disk, directory: str, users: Sequence[FirstUser]
    ) -> None:
        settings = [plan.settings for plan in self._plans.values()]
        secrets = {*passwords_of(users), *(one for each in settings for one in secrets_of(each))}
        if secrets:
            places: dict[str, bytes | str] = {"the log": "\n".join(texts)}
            places |= files_on(disk, directory)
            assert not (found := hits(secrets, places)), "\n".join(found)
