"""One server for all tests of a run that do not harm it; each of them has a separate chroot."""

from __future__ import annotations

import itertools
import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.support import evidence
from tests.zookeeper.java import Missing, why_missing
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers: Iterator[int] = itertools.count(1)


def need_zookeeper() -> None:
    """Skip the test where no server can be started, with the reason; in CI that is a failure."""
    reason = why_missing()
    if reason is not None:
        if os.environ.get("CI"):
            raise Missing(reason)
        pytest.skip(reason)


@cache
def shared_server() -> ZooKeeperServer:
    """Started at the first use, killed when the run of pytest ends."""
    need_zookeeper()
    return ZooKeeperServer().start()


def close_shared_server() -> None:
    """A worker of xdist ends without the farewells that were arranged for the process's end."""
    if shared_server.cache_info().currsize:
        shared_server().close()
        shared_server.cache_clear()


def fresh_place() -> str:
    """A connect string with a unique chroot that does not exist yet."""
    evidence.note(evidence.ZOOKEEPER)
    return f"{shared_server().address}/t{next(_numbers)}"
