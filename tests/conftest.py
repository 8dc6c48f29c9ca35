"""Requirement markers: which rows of the specification a test shows, and with what real things.

Both stand in the reports of pytest. ``make test`` writes them down (``tests/lots/recording.py``),
and ``make requirements`` reads what it has written.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.lots.recording import PROPERTY, USED
from tests.requirements import known_ids
from tests.support import evidence
from tests.support.hostile import cluster_scan
from tests.zookeeper.shared import close_shared_server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

# What each fixture has started, for as long as the run lasts.
_used_by_fixture: dict[pytest.FixtureDef[object], tuple[str, ...]] = {}

# How long an example takes depends on what else the machine does: a limit finds nothing but that.
settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")


def pytest_configure() -> None:
    """Let Ctrl-C be heard, and let each cluster be scanned for secrets."""
    cluster_scan.install()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what it puts into the background deaf to Ctrl-C, and tests press it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """Leave no server behind."""
    close_shared_server()


def _marked_ids(item: pytest.Item) -> Iterable[str]:
    for mark in item.iter_markers("requirement"):
        yield from mark.args


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a marker that names no row: a typing slip would hide a gap."""
    known = known_ids()
    for item in items:
        for row_id in _marked_ids(item):
            if row_id not in known:
                raise pytest.UsageError(f"{item.nodeid}: no requirement is called {row_id}")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Remember what a fixture has started: it serves tests whose own turn comes later."""
    before = evidence.take()
    try:
        return (yield)
    finally:
        made = evidence.take()
        _used_by_fixture[fixturedef] = made
        for kind in (*before, *made):
            evidence.note(kind)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the rows of a test and what it used into its report; with that they come out of a worker
    of xdist as well."""
    report = yield
    if report.when == "setup":
        report.user_properties += [(PROPERTY, row_id) for row_id in _marked_ids(item)]
    report.user_properties += [(USED, kind) for kind in evidence.take()]
    if report.when == "call":
        report.user_properties += [(USED, kind) for kind in _used_by_fixtures_of(item)]
    return report


def _used_by_fixtures_of(item: pytest.Item) -> Iterable[str]:
    definitions = getattr(item, "_fixtureinfo", None)
    for name in getattr(item, "fixturenames", ()):
        for one in definitions.name2fixturedefs.get(name, ()) if definitions else ():
            yield from _used_by_fixture.get(one, ())
