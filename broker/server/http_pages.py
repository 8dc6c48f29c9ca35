"""The broker's HTTP pages: ``/metrics``, ``/healthz`` and ``/readyz``.

The server listens from the first moment of a start, so that a supervisor can tell a long recovery
from a process that hangs.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import CONTENT_TYPE, render
from ottla.broker.metrics.loop_delay import LoopDelay
from ottla.broker.network.http import HttpServer, Page
from ottla.broker.server.listening import metrics_address
from ottla.broker.server.run_state import illness, obstacle, remark, separation
from ottla.broker.server.stores import CannotStart

if TYPE_CHECKING:
    from ottla.broker.metrics.exposition import Collector
    from ottla.broker.server.collectors import BrokerCollectors
    from ottla.broker.server.parts import BrokerParts
    from ottla.broker.server.run_state import RunState
    from ottla.protocol.ports import Address

logger = logging.getLogger("ottla.broker")


def _broker_collectors() -> type[BrokerCollectors]:
    """Loaded by brokers whose metrics are asked for only."""
    from ottla.broker.server.collectors import BrokerCollectors

    return BrokerCollectors


class HttpPages:
    """Owned by the broker."""

    def __init__(self, parts: BrokerParts, state: RunState) -> None:
        self._parts = parts
        self._state = state
        self._loop_delay = LoopDelay(parts.shared.ports.clock)
        self._http: HttpServer | None = None
        self.address: Address | None = None
        self._collectors: list[Collector] = []

    def listen(self) -> None:
        """Serve the pages if ``ottla.metrics.listener`` is set. Raises CannotStart."""
        shared = self._parts.shared
        wanted = metrics_address(shared.config)
        if wanted is None:
            return
        self._http = HttpServer(shared.ports.net, shared.ports.clock, self.page)
        try:
            self.address = self._http.bind(wanted)
        except OSError as error:
            raise CannotStart(
                f"cannot serve metrics at {wanted}: {error.strerror or error}. "
                "Choose another address with ottla.metrics.listener."
            ) from error
        self.measure()
        logger.info("metrics are at http://%s/metrics", self.address)

    def measure(self) -> None:
        """Begin with what has to be watched all the time; ``close`` ends it."""
        self._find_collectors()
        self._loop_delay.start()

    def _find_collectors(self) -> list[Collector]:
        if not self._collectors:
            found = _broker_collectors()(self._parts, self._state)
            self._collectors = [*found.all(), self._loop_delay.families]
        return self._collectors

    def close(self) -> None:
        """Close the HTTP server. May be called again."""
        self._loop_delay.stop()
        if self._http is not None:
            self._http.close()

    def vital_signs(self) -> tuple[str, str]:
        """What is wrong with the process, and with its session with the metadata store; empty
        texts if they are well."""
        return illness(self._state), separation(self._state)

    def page(self, path: str) -> Page | None:
        """Return the page at ``path``; None if there is none."""
        if path == "/metrics":
            families = (family for collect in self._find_collectors() for family in collect())
            return Page(HTTPStatus.OK, render(families), CONTENT_TYPE)
        if path == "/healthz":
            return _status_page(illness(self._state), remark(self._state))
        if path == "/readyz":
            return _status_page(illness(self._state) or obstacle(self._state, self._parts), "")
        return None


def _status_page(reason: str, note: str) -> Page:
    if reason:
        return Page(HTTPStatus.SERVICE_UNAVAILABLE, (f"{reason}\n",))
    return Page(HTTPStatus.OK, ("ok\n", f"{note}\n" if note else ""))
