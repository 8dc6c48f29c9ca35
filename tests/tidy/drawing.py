"""The rooms of the tree and the arrows between them: "imports". No room is its own ancestor.

    ottla (verbs, public names) ──► broker.cli, client.*, broker.testing

    broker.testing ─► broker.cli ─► broker.server (makes, starts and stops all parts of a broker)
                                       │
          broker.network ◄─────────────┼──────────────► broker.metrics, broker.system
                                       ▼
                                  broker.api ─► broker.handlers.*  (one module for each API)
                                                       │
       broker.{coordinating, administration, directories, controlling, following, cleaner,
               housekeeping}                           ▼
                                       broker.{partitions, membership, metadata}
                                                       ▼
              broker.log.*   broker.{replica, policy, quotas, authorization, engine}   coordinator.*
                                                       ▼
                                                     wire  ◄── client.process ◄── client.records ...
                                                       ▼
                                                   protocol

    client.classic ─► client.sync, client.classic.registry ─► coordinator.store
    client.cli, client.console, client.sync, client.spark, client.backup, client.mirror
       ─► client (producer, consumer, admin)
       ─► client.{parallel, group, sending, fetching, administration} ─► client.cluster
       ─► client.settings ─► client.records ─► client.process ─► wire

The broker stands on ``wire`` and never on ``client``; its commands and its test cluster may use
both. Think twice before adding an arrow: if a lower room needs something of a higher one, the
higher one should pass it a value or a function.
"""

from __future__ import annotations

# A room, then the rooms that its files may import beside itself and ``protocol``. ``ottla`` is the
# package itself: the public names and the verbs, which load what they name when it is used.
_ARROWS = """
ottla: broker.testing client client.administration client.classic client.classic.registry
    client.cli client.cluster client.fetching
    client.group client.parallel client.process client.records client.sending client.settings
    client.sync client.tracing protocol.records wire
protocol:
protocol.messages:
protocol.records:
protocol.message_sets: protocol.records
protocol.wire07: protocol.records
protocol.sasl:
wire.tls:
wire: protocol.messages protocol.sasl wire.tls
coordinator:
coordinator.store:
coordinator.store.served: coordinator.store
coordinator.metadata: protocol.messages
coordinator.transaction: coordinator protocol.messages
coordinator.configs: coordinator coordinator.metadata protocol.sasl
coordinator.controller: coordinator coordinator.configs coordinator.metadata coordinator.store
    protocol.messages
coordinator.group.common: coordinator coordinator.configs
coordinator.group.classic: coordinator coordinator.group.common protocol.messages
coordinator.group.consumer: coordinator coordinator.group.classic coordinator.group.common
    coordinator.metadata protocol.messages
coordinator.group.offsets: coordinator coordinator.group.classic coordinator.group.common
    protocol.messages
coordinator.group: coordinator coordinator.group.classic coordinator.group.common
    coordinator.group.consumer coordinator.group.offsets coordinator.metadata protocol.messages
client.group.assignors:
client.process: wire
client.records: client.process protocol.records wire
client.settings: client.records protocol.records protocol.sasl wire wire.tls
client.cluster: client.process client.records client.settings protocol.messages wire
client.administration: client.cluster client.records protocol.messages protocol.records
    protocol.sasl wire
client.fetching: client.cluster client.process client.records client.settings
    protocol.message_sets protocol.messages protocol.records wire
client.sending: client.cluster client.process client.records client.settings protocol.messages
    protocol.records wire
client.group: client.cluster client.fetching client.group.assignors client.process
    client.records client.settings protocol.messages wire
client.parallel: client.group client.process client.records wire
client: client.administration client.cluster client.fetching client.group client.parallel
    client.process client.records client.sending client.settings protocol.records wire
client.tracing: client.records wire
client.mirror: client client.administration client.cluster client.fetching client.group
    client.process client.records client.settings protocol.records wire
client.backup: client client.administration client.cluster client.fetching client.mirror
    client.process client.records client.settings protocol.messages protocol.records wire
client.classic: client client.classic.registry client.cluster client.fetching client.group
    client.process client.records client.settings client.sync coordinator.store protocol.messages
    protocol.records wire
client.classic.registry: client.process coordinator.store wire
client.spark: client client.cluster client.fetching client.group client.process client.records
    client.sending client.settings protocol.records wire
client.sync: client client.administration client.cluster client.fetching client.group
    client.parallel client.process client.records client.sending client.settings
    protocol.records protocol.sasl wire
client.console.views: client client.administration client.cluster client.fetching client.group
    client.records protocol.records wire
client.console: client client.administration client.cluster client.console.views client.fetching
    client.group client.process client.records client.settings protocol.records wire
client.cli: client client.backup client.fetching client.mirror client.process client.settings wire
client.cli.cluster: client client.administration client.cli client.cluster client.fetching
    client.settings wire
client.cli.groups: client client.classic client.cli client.cluster client.fetching client.group
    client.records client.settings coordinator.store wire
client.cli.parsers: client.cli
client.cli.transactions: client client.administration client.cli client.fetching client.process
    client.settings wire
client.cli.records: client client.administration client.cli client.cli.cluster client.cluster
    client.fetching client.group client.process client.records client.settings wire
client.cli.web: client.cli client.cli.records client.console client.process wire
client.spark.jobs: client.administration client.cli client.cli.parsers client.cluster
    client.settings client.spark client.sync wire
broker:
broker.engine:
broker.policy: broker.quotas
broker.authorization: broker.engine coordinator.configs coordinator.store
broker.quotas: broker.engine coordinator.metadata coordinator.store
broker.log.storage: broker.engine protocol.message_sets protocol.records
broker.network: broker.engine broker.quotas protocol.records wire wire.tls
broker.security: broker.authorization broker.engine coordinator.configs coordinator.metadata
    coordinator.store protocol.messages protocol.sasl wire wire.tls
broker.replica: protocol.message_sets protocol.records
broker.log: broker.engine broker.log.storage protocol.records
broker.log.recovery: broker.log broker.log.storage protocol.message_sets protocol.records
broker.log.directories: broker.log broker.log.recovery broker.log.storage
broker.metadata: broker.engine broker.log.storage broker.policy broker.replica
    coordinator.configs coordinator.controller coordinator.metadata coordinator.store
    protocol.messages protocol.records
broker.membership: broker.engine broker.metadata coordinator.metadata coordinator.store wire
broker.partitions: broker.engine broker.log broker.log.directories broker.log.storage
    broker.metadata broker.policy broker.replica coordinator.configs coordinator.controller
    coordinator.metadata coordinator.store protocol.message_sets protocol.messages
    protocol.records
broker.cleaner: broker.log broker.log.storage broker.partitions broker.replica
    coordinator.configs protocol.records
broker.controlling: broker.engine broker.membership broker.metadata broker.partitions
    coordinator.controller coordinator.metadata coordinator.store protocol.messages wire
broker.following: broker.engine broker.log.storage broker.membership broker.partitions
    broker.replica coordinator.configs protocol.messages protocol.records wire
broker.housekeeping: broker.engine broker.log broker.partitions broker.replica
broker.administration: broker.controlling broker.membership broker.metadata coordinator.configs
    coordinator.controller coordinator.metadata coordinator.store protocol.messages wire
broker.directories: broker.engine broker.following broker.log.directories broker.log.storage
    broker.metadata broker.partitions coordinator.store protocol.records
broker.coordinating: broker.administration broker.engine broker.membership broker.metadata
    broker.partitions broker.replica coordinator coordinator.configs coordinator.group
    coordinator.group.common coordinator.metadata coordinator.store coordinator.transaction
    protocol.messages protocol.records wire
broker.handlers: broker.security broker.administration broker.authorization broker.coordinating
    broker.directories broker.engine broker.housekeeping broker.metadata broker.partitions
    broker.quotas broker.telemetry broker.tracing
    coordinator.configs coordinator.metadata coordinator.store protocol.messages protocol.records
broker.api: broker.engine broker.handlers broker.handlers.cluster broker.handlers.data
    broker.handlers.groups broker.handlers.old broker.handlers.security
    broker.handlers.transactions
    broker.quotas coordinator.metadata protocol.messages wire
broker.handlers.cluster: broker.administration broker.coordinating broker.directories
    broker.engine broker.handlers broker.housekeeping broker.metadata broker.partitions
    broker.policy broker.quotas coordinator.configs coordinator.metadata protocol.messages
    protocol.records
broker.handlers.data: broker.coordinating broker.engine broker.handlers broker.partitions
    broker.policy coordinator.metadata protocol.messages protocol.records
broker.handlers.groups: broker.coordinating broker.engine broker.handlers broker.policy
    coordinator protocol.messages
broker.handlers.old: broker.engine broker.handlers broker.handlers.data broker.log
    broker.partitions broker.replica coordinator.store protocol.message_sets protocol.messages
    protocol.records
broker.handlers.security: broker.authorization broker.engine broker.handlers broker.policy
    broker.quotas broker.security coordinator.metadata coordinator.store protocol.messages
    protocol.sasl
broker.handlers.transactions: broker.coordinating broker.engine broker.handlers
    broker.partitions broker.policy coordinator coordinator.metadata coordinator.transaction
    protocol.messages
broker.wire07: broker.authorization broker.engine broker.handlers broker.log.storage broker.network
    broker.partitions broker.replica coordinator.metadata coordinator.store protocol.message_sets
    protocol.messages protocol.records protocol.wire07
broker.metrics: broker.api broker.cleaner broker.coordinating broker.engine broker.following
    broker.log.directories broker.metadata broker.network broker.partitions broker.quotas
    broker.security broker.telemetry coordinator.group coordinator.metadata coordinator.store
broker.telemetry: broker.engine broker.metadata coordinator.configs coordinator.metadata
    protocol.messages protocol.records
broker.tracing: broker.engine broker.partitions protocol.messages protocol.records wire
broker.system: broker.metrics wire
broker.processes: broker.engine broker.metrics broker.network broker.server coordinator.store
    coordinator.store.served protocol.sasl wire
"""


def _parsed() -> dict[str, set[str]]:
    allowed = {}
    for line in _ARROWS.replace("\n    ", " ").strip().splitlines():
        room, _, targets = line.partition(":")
        allowed[room.removeprefix("ottla")] = {"protocol", *targets.split()}
    return allowed


ALLOWED = _parsed()
# These put parts together, and may import every room of the broker and below.
COMPOSES = {"broker.server", "broker.cli", "broker.testing"}
# The modules of a room that other rooms may import, where the room has inner ones beside them.
SURFACES = {
    "wire": {
        "api",
        "backoff",
        "clock",
        "connection",
        "connection_config",
        "errors",
        "messages",
        "negotiation",
        "pool",
        "real",
        "requests",
        "sasl",
        "security",
        "signals",
        "unix",
    }
}
