"""The listener for clients of 0.7: opened when the broker serves, and closed with it.

The wire of 0.7 has neither login nor encryption, so its clients are ``User:ANONYMOUS``. Each
connection has its requests handled one after the other.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.authorization.setup import super_users_of
from ottla.broker.engine.context import Paused
from ottla.broker.network.server import NetworkServer
from ottla.broker.network.settings import ListenerSpec
from ottla.broker.wire07.asking import Asking
from ottla.broker.wire07.partitions import Places07
from ottla.broker.wire07.producing import Producing07
from ottla.broker.wire07.reading import Reading07
from ottla.broker.wire07.stored import forget_deleted
from ottla.coordinator.store.store import StoreError
from ottla.protocol.acls import Permission
from ottla.protocol.errors import ErrorCode, KafkaError, RemoteProtocolError
from ottla.protocol.frames import KafkaFraming
from ottla.protocol.wire07.answers import encode_fetched, encode_many_fetched
from ottla.protocol.wire07.requests import Kind07, decode_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.engine.context import ClientPeer, Dispatch, ReplySlot
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.handlers.services import Services
    from ottla.broker.network.settings import NetworkSettings
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.protocol.acls import AclRule
    from ottla.protocol.ports import Address
    from ottla.protocol.wire07.requests import Request07

logger = logging.getLogger("ottla.wire07")

NAME = "KAFKA07"
_ANONYMOUS = "User:ANONYMOUS"
_ANYONE = "User:*"


def allows_anonymous(rules: Iterable[AclRule]) -> bool:
    """Whether a rule allows clients without a login anything. Pure."""
    return any(
        rule.permission is Permission.ALLOW and rule.principal in (_ANONYMOUS, _ANYONE)
        for rule in rules
    )


def _check_logins(services: Services) -> None:
    """Without rules every client may do everything, so logins elsewhere would protect nothing."""
    config = services.config
    closed = [one.listener for one in config.listeners if one.listener in config.sasl]
    named = {name.upper() for name in config.allow_insecure_listeners}
    if closed and NAME not in named:
        raise KafkaError(
            ErrorCode.ILLEGAL_SASL_STATE,
            f"clients of Kafka 0.7 cannot log in, as the listener {closed[0]} asks for, and "
            "without access rules they may do everything: leave ottla.listener.07 out, set "
            f"authorizer.class.name, or name {NAME} in ottla.allow.insecure.listeners if its "
            "network is trusted",
        )


class Listener07:
    """``dispatch``: where the requests of other clients go."""

    def __init__(
        self, services: Services, dispatch: Dispatch, settings: NetworkSettings, tasks: Tasks
    ) -> None:
        ports = services.ports
        self._services = services
        self.address: Address | None = None
        asking, places = Asking(dispatch, ports.offload), Places07(services)
        self._reading = Reading07(services, asking, places)
        self._producing = Producing07(services, asking, places)
        self.network = NetworkServer(
            ports.net, ports.clock, tasks, self.dispatch, settings, ports.offload
        )
        self.network.limit_ips(services.quotas.connection_rate)
        self._tasks = tasks
        services.metadata.subscribe(self.on_metadata)

    def open(self, address: Address) -> Address:
        """Listen and serve; the address that was taken. Raises OSError, and KafkaError where other
        listeners ask for a login and no rules apply, or rules allow nothing without one."""
        self._check_rules()
        framing = KafkaFraming(self._services.config.socket_request_max_bytes)
        spec = ListenerSpec(NAME, address, framing=framing)
        bound = self.network.bind([spec])[NAME]
        self.network.start()
        self.address = bound
        # Topics that were deleted while this broker was down.
        self._tasks.spawn("positions of 0.7", self._forget_deleted())
        logger.warning("clients of Kafka 0.7 are served at %s, without login or encryption", bound)
        return bound

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Topics may have been deleted, and with them what their positions meant."""
        if delta.gone_topics and self.address is not None:
            self._tasks.spawn("positions of 0.7", self._forget_deleted())

    async def _forget_deleted(self) -> None:
        try:
            await forget_deleted(self._services.session())
        except (KafkaError, StoreError) as error:
            # They take some room until the next topic is deleted.
            logger.info("positions of deleted topics stay in the store: %s", error)

    def _check_rules(self) -> None:
        config, acls = self._services.config, self._services.acls
        if acls is None:
            _check_logins(self._services)
            return
        if (
            config.allow_everyone_if_no_acl_found
            or _ANONYMOUS in super_users_of(config)
            or allows_anonymous(acls.index.rules())
        ):
            return
        raise KafkaError(
            ErrorCode.ILLEGAL_SASL_STATE,
            "clients of Kafka 0.7 cannot log in, and no access rule allows anything to "
            f"{_ANONYMOUS}: leave ottla.listener.07 out, or first allow {_ANONYMOUS} what they "
            "need, for example with ottla acls",
        )

    def dispatch(self, peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> Any:
        """Handle one frame; the meaning of the result is ``context.Dispatch``'s."""
        try:
            request = decode_request(frame)
        except RemoteProtocolError as error:
            reply.close(str(error))
            return None
        return Paused(self._handle(peer, request, reply))

    async def _handle(self, peer: ClientPeer, request: Request07, reply: ReplySlot) -> None:
        parts: Any = request.parts
        try:
            if request.kind in (Kind07.PRODUCE, Kind07.MULTIPRODUCE):
                await self._producing.append_all(peer, parts)
                reply.skip()
            elif request.kind is Kind07.OFFSETS:
                reply.send((await self._reading.offsets(peer, parts[0]),))
            elif request.kind is Kind07.FETCH:
                reply.send((encode_fetched((await self._reading.fetch_all(peer, parts))[0]),))
            else:
                reply.send((encode_many_fetched(await self._reading.fetch_all(peer, parts)),))
        except KafkaError as error:
            reply.close(str(error))
