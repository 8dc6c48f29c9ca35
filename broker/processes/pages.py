"""HTTP pages of the supervisor: the merged pages of all brokers of the machine."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import CONTENT_TYPE
from ottla.broker.network.http import HttpServer, Page
from ottla.broker.processes.fleet import FleetPhase
from ottla.broker.processes.metrics_page import merged, status_lines, trouble_lines
from ottla.broker.server.stores import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.processes.supervisor import Supervisor
    from ottla.protocol.ports import Address, Ports

logger = logging.getLogger("ottla.processes")


class SupervisorPages:
    """``listen`` and ``close`` once each."""

    def __init__(self, ports: Ports, tasks: Tasks, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._tasks = tasks
        self._figures: dict[int, str] = {}
        self._http = HttpServer(ports.net, ports.clock, self.page, self._prepare)

    def listen(self, address: Address) -> None:
        """Serve from now on. Raises CannotStart."""
        try:
            bound = self._http.bind(address)
        except OSError as error:
            raise CannotStart(
                f"cannot serve metrics at {address}: {error.strerror or error}. "
                "Choose another address with ottla.metrics.listener."
            ) from error
        logger.info("metrics of all brokers are at http://%s/metrics", bound)

    def close(self) -> None:
        """Close the HTTP server."""
        self._http.close()

    def page(self, path: str) -> Page | None:
        """Return the page at ``path``; None if there is none."""
        if path == "/metrics":
            return Page(HTTPStatus.OK, merged(self._figures), CONTENT_TYPE)
        ill = trouble_lines(self._supervisor.illnesses)
        troubles = status_lines(self._supervisor.states)
        troubles += trouble_lines(self._supervisor.obstacles)
        is_stopping = self._supervisor.fleet.phase is FleetPhase.STOPPING
        if path == "/healthz":
            # The supervisor restarts a broker that has died: no reason to replace the whole
            # machine. It does not restart one that hangs.
            if ill:
                return Page(HTTPStatus.SERVICE_UNAVAILABLE, [*ill, *troubles])
            return Page(HTTPStatus.OK, ["ok\n", *troubles])
        troubles = [*ill, *troubles]
        if path == "/readyz":
            is_ready = not troubles and not is_stopping
            status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
            return Page(status, ["ok\n"] if is_ready else troubles or ["the brokers stop\n"])
        return None

    def _prepare(self, path: str, then: Callable[[], object]) -> None:
        if path == "/metrics":
            self._tasks.spawn("metrics", self._collect(then))
        else:
            then()

    async def _collect(self, then: Callable[[], object]) -> None:
        self._figures = await self._supervisor.figures()
        then()
