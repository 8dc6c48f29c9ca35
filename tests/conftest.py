"""Requirement markers: which rows of the specification each run has shown.

Every passing test adds its rows to a file in pytest's cache folder, which ``make requirements``
reads; a row counts once its test has passed in any tier.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.requirements import known_ids, record_shown
from tests.zookeeper.shared import close_shared_server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

PROPERTY = "requirement"


# How long an example takes depends on what else the machine does: a limit finds nothing but that.
settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")


def pytest_configure() -> None:
    """Let Ctrl-C be heard."""
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
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the rows of a test; with the report they come out of a worker of xdist as well."""
    report = yield
    if report.when == "call":
        report.user_properties += [(PROPERTY, row_id) for row_id in _marked_ids(item)]
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what the tests that passed have shown, for ``make requirements``.

    Workers have nobody to report to, and would write over each other's record."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    shown: dict[str, set[str]] = {}
    for report in reporter.stats.get("passed", []):
        for name, row_id in report.user_properties:
            if name == PROPERTY:
                shown.setdefault(row_id, set()).add(report.nodeid)
    record_shown(session.config.rootpath, shown)
