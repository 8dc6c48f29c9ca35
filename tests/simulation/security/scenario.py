"""A secured cluster under chaos: the scenario of ``--security``.

The story is that of a cluster. Beside its workload, on a listener with logins, a user without
rights is refused again and again, and another one makes tokens that holders log in with, until they
expire or are removed. Brokers are killed and stopped, cut off, and lose their sessions. The audit
log and the sessions of the tokens are judged in the end.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import AUDIT_TOPIC
from ottla.coordinator.store import delegation_tokens
from tests.simulation.clients.consumers import take_stock
from tests.simulation.cluster.attachment import Connection
from tests.simulation.cluster.ensemble import STORE_HOST
from tests.simulation.cluster.evidence import ClusterHistory
from tests.simulation.cluster.scenario import LOOK_S, PORT, STOCK_S, ClusterRun
from tests.simulation.security.audit_evidence import AuditEvidence
from tests.simulation.security.options import AUDIT_FILE, SASL_PORT, draw_secured_options
from tests.simulation.security.token_evidence import TokenEvidence
from tests.simulation.security.visitors import Around, Outsider, TokenHolder, TokenMaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.tree import StoreTransaction
    from tests.simulation.cluster.ambushes import Ambushes
    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.cluster.options import ClusterOptions
    from tests.simulation.security.visitors import MadeToken
    from tests.simulation.world.node import Node
    from tests.simulation.world.world import Outcome

HOLDERS = tuple(f"holder-{number}" for number in range(3))
VISITORS = ("eve", "maker", *HOLDERS)
AUDIT_PARTITION = (AUDIT_TOPIC, 0)


class SecuredRun(ClusterRun):
    """One run; made for one seed."""

    def __init__(self, seed: int, options: ClusterOptions) -> None:
        super().__init__(seed, options)
        self.audit = AuditEvidence()
        self.tokens = TokenEvidence()
        self.ensemble.on_commit = self._on_commit
        self._around = Around(
            self.audit, self.tokens, options.brokers, self._wall_ms, lambda: self._go_on
        )
        self._visitors_history = ClusterHistory()

    def _settings_of(self, number: int) -> dict[str, str]:
        host = f"broker-{number}"
        listeners = f"PLAINTEXT://{host}:{PORT},SASL_PLAINTEXT://{host}:{SASL_PORT}"
        return {**super()._settings_of(number), "listeners": listeners}

    def run(self) -> Outcome:
        """The whole story and its verdict."""
        outcome = super().run()
        found = [
            *self.audit.violations(),
            *self.tokens.violations(),
            *(f"surprise: {surprise}" for surprise in self._visitors_history.surprises),
            *(f"{name} died of {death}" for name in VISITORS for death in self._deaths(name)),
        ]
        counts = {
            **outcome.counts,
            "refusals": sum(one.event == "refusal" for one in self.audit.told),
            "token changes": sum(one.event == "change" for one in self.audit.told),
            "audit lines": sum(map(len, self.audit.files.values())),
            "audit lines lost with a process": len(self.audit.waiting),
            "served by tokens": len(self.tokens.served),
            "refused logins": self.tokens.refused_logins,
            "ended sessions": self.tokens.ended,
        }
        return outcome._replace(
            violations=outcome.violations + found, counts=counts, scenario="--security "
        )

    def _deaths(self, name: str) -> list[str]:
        node = self.world.nodes.get(name)
        return [] if node is None else node.deaths

    # ---- what is seen from outside ----

    def _on_commit(self, transaction: StoreTransaction) -> None:
        self.watchman.on_commit(transaction)
        for step in transaction.steps:
            path = getattr(step, "path", "")
            parent, _, token_id = path.rpartition("/")
            if parent != delegation_tokens.TOKENS:
                continue
            node = self.ensemble.tree.nodes.get(path)
            if node is None:
                self.tokens.removed_s.setdefault(token_id, self.world.loop.time())
                continue
            token = delegation_tokens.parse_token(token_id, node.data)
            assert token is not None
            known = self.tokens.expiry_ms.get(token_id, 0)
            self.tokens.expiry_ms[token_id] = max(known, token.expiry_ms)

    def _wall_ms(self, broker: int) -> float | None:
        node = self.cluster.nodes[broker]
        return node.clock.wall_ms() if node.running and node.clock is not None else None

    async def _watch(self) -> None:
        watching = asyncio.ensure_future(super()._watch())
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                now_s = self.world.loop.time()
                for number, node in self.cluster.nodes.items():
                    if not self._can_know(node):
                        self.tokens.unable_s[number].append(now_s)
        finally:
            watching.cancel()

    def _can_know(self, node: Node) -> bool:
        """Whether the broker runs, with a connection to the store over which something comes."""
        process, ensemble = node.process, self.ensemble
        if process is None or not process.running or process.domain.stopped:
            return False
        route, host = ensemble.route, node.name
        if route.is_blocked(host, STORE_HOST) or route.is_blocked(STORE_HOST, host):
            return False
        return ensemble.has_quorum and any(
            isinstance(session.attachment, Connection) and not session.attachment.is_held_up
            for session in ensemble.sessions.values()
            if session.owner == host
        )

    # ---- the story ----

    def _make_chaos(self) -> Ambushes:
        chaos = super()._make_chaos()
        for number, node in self.cluster.nodes.items():
            node.on_exit = partial(self._on_exit, number, node.on_exit)
        return chaos

    def _on_exit(self, number: int, then: Callable[[], object]) -> None:
        self.audit.waiting.update(self._waiting(number))
        then()

    def _waiting(self, number: int) -> list[str]:
        broker = self.cluster.brokers.get(number)
        topic = None if broker is None else broker.parts.audit_topic
        return [] if topic is None else [line.decode() for _, line in topic._lines]

    def _start_clients(self) -> None:
        super()._start_clients()
        history = self._visitors_history
        self.start_client("eve", lambda client: Outsider(client, self._around).run(), history)
        made: list[MadeToken] = []
        self.start_client(
            "maker", lambda client: TokenMaker(client, self._around, made).run(), history
        )
        for name in HOLDERS:
            self.start_client(
                name,
                lambda client: TokenHolder(client, self._around, made).run(),
                history,
            )

    # ---- the end ----

    async def _take_stock(self) -> None:
        await super()._take_stock()
        if not await self._until(
            STOCK_S / 2, lambda: not any(map(self._waiting, self.cluster.nodes))
        ):
            self.history.stuck.append("lines of the audit log do not get into the topic")
        before = {number: len(self._lines(number)) for number in self.cluster.nodes}
        history = ClusterHistory()

        async def stock(client: ClusterClient) -> None:
            await take_stock(client.view(AUDIT_PARTITION), AUDIT_PARTITION)

        await self.start_client("reader", stock, history)
        final = history.finals[AUDIT_PARTITION]
        self.audit.topic = [value.decode() for _, value in final.records]
        for number, count in before.items():
            lines = self.audit.files[number] = self._lines(number)
            # Of these it is not known whether the topic was read before they came.
            self.audit.waiting.update(lines[count:])

    def _lines(self, number: int) -> list[str]:
        files = self.cluster.nodes[number].files
        if files.find(AUDIT_FILE) is None:
            return []
        return bytes(files.file(AUDIT_FILE).data).decode().splitlines()


def run(seed: int, chaos_s: float | None = None) -> Outcome:
    """One seed."""
    outcome = SecuredRun(seed, draw_secured_options(seed, chaos_s)).run()
    if chaos_s is not None:
        outcome = outcome._replace(scenario=f"--security --seconds {chaos_s} ")
    return outcome
