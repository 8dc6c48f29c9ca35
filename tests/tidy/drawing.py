"""The import drawing. Read it downwards: an arrow means "imports".

    ottla (verb table) ──► broker.cli, client.cli        broker.testing ──► broker
    broker (server) ─┬─► broker.network ────────────────────────────────────────────┐
                     ├─► broker.metrics (reads network, api.dispatch, runtime) ────┤
                     ├─► broker.api ─┬─► broker.policy ────────────────────────────┤
                     │               ├─► coordinator.metadata ─────────────────────┤
                     │               └─► broker.runtime ─┬─► broker.policy ─────────┤
                     │                                   ├─► broker.replica ────────┤
                     │                                   ├─► broker.log ────────────┤
                     │                                   ├─► coordinator.controller ┤
                     │                                   ├─► coordinator.group ─────┤
                     │                                   ├─► coordinator.transaction┤
                     │                                   ├─► coordinator.store ─────┤
                     │                                   └─► client (wire part) ────┤
                     └─► all of the above                                           ▼
                                                                                protocol

THINK TWICE BEFORE ADDING AN ARROW. If a lower room needs something of a higher one, the higher
one should pass it a value or a function.
"""

from __future__ import annotations

LEAVES = {"broker.context", "broker.tasks", "broker.metrics.histogram", "broker.config"}

# What both kinds of groups share; the shard above knows both kinds.
GROUP_LEAVES = {
    f"coordinator.group.{name}"
    for name in (
        "membership",
        "record_values",
        "records",
        "scope",
        "settings",
        "timeline",
    )
}

# folder -> the folders (or leaf modules of broker) that its files may import.
ALLOWED: dict[str, set[str]] = {
    # For type checkers only: the public names, which are loaded when they are first used. The
    # command completes lines from their parsers alone.
    "": {
        "broker.testing",
        "client",
        "client.cli.completing",
        "client.sync",
        "protocol",
        # What batches are handed out as, and taken as.
        "protocol.records.columns",
    },
    "protocol": set(),
    "protocol.messages": {"protocol"},
    "protocol.records": {"protocol"},
    "coordinator": {"protocol", "protocol.messages", "protocol.records"},
    "coordinator.metadata": {"protocol", "protocol.messages", "coordinator"},
    "coordinator.store": {"protocol", "coordinator"},
    "coordinator.controller": {
        "protocol",
        "protocol.messages",
        "coordinator",
        "coordinator.metadata",
        # The pure halves of the store: znode paths, payloads and operation values.
        "coordinator.store.deleted_topics",
        "coordinator.store.full_disks",
        "coordinator.store.paths",
        "coordinator.store.store",
    },
    "coordinator.group": {
        "protocol",
        "protocol.messages",
        "protocol.records",
        "coordinator",
        "coordinator.metadata",
        "coordinator.group.classic",
        "coordinator.group.consumer",
    },
    "coordinator.group.classic": {"protocol", "protocol.messages", *GROUP_LEAVES, "coordinator"},
    "coordinator.group.consumer": {
        "protocol",
        "protocol.messages",
        "coordinator",
        "coordinator.metadata",
        # Members that speak the older protocol live in the newer kind of group while it migrates.
        "coordinator.group.classic",
        *GROUP_LEAVES,
    },
    "coordinator.transaction": {
        "protocol",
        "protocol.messages",
        "protocol.records",
        "coordinator",
    },
    "client.state": {"protocol", "protocol.messages", "protocol.records"},
    "client.state.assignors": {"protocol", "protocol.messages", "client.state"},
    "client.state.group": {
        "protocol",
        "protocol.messages",
        "client.state",
        "client.state.assignors",
    },
    "client": {
        "protocol",
        "protocol.messages",
        "protocol.records",
        "client.state",
        "client.state.assignors",
        "client.state.group",
    },
    # The blocking face of client: one call for each method.
    "client.sync": {"protocol", "client", "client.state", "protocol.records.columns"},
    "client.cli": {
        "protocol",
        "protocol.messages",
        "protocol.records",
        "client",
        "client.mirror",
        "client.state",
        "client.state.group",
    },
    "client.mirror": {"protocol", "protocol.records.columns", "client", "client.state"},
    # A data source of Spark blocks: what it does is a few calls of blocking clients.
    "client.spark": {
        "protocol",
        "protocol.records.columns",
        "protocol.records.crc32c",
        "client",
        "client.state",
        "client.sync",
    },
    "client.spark.jobs": {
        "protocol",
        "client",
        "client.cli.parsers",
        "client.spark",
        "client.state",
        "client.sync",
    },
    # Command lines know no client: they must load in no time.
    "client.cli.parsers": {"client.cli.arguments", "client.cli.places"},
    "broker.replica": {"protocol", "protocol.messages", "protocol.records"},
    "broker.policy": {"protocol"},
    "broker.log": {"protocol", "protocol.records", *LEAVES},
    "broker.network": {"protocol", *LEAVES},
    "broker.runtime": {
        "protocol",
        "protocol.messages",
        "protocol.records",
        "broker.replica",
        "broker.log",
        # Services carry the door from the server to the handlers.
        "broker.policy",
        "coordinator",
        "coordinator.metadata",
        "coordinator.controller",
        "coordinator.group",
        "coordinator.transaction",
        "coordinator.store",
        "client.api",
        "client.config",
        "client.connection",
        "client.connection_config",
        "client.errors",
        "client.pool",
        "client.state.backoff",
        *LEAVES,
    },
    "broker.metrics": {
        "protocol",
        "broker.api.dispatch",
        "broker.log",
        "broker.network",
        "broker.runtime",
        "coordinator.group",
        "coordinator.metadata",
        *LEAVES,
    },
    "broker.api": {
        "protocol",
        "protocol.messages",
        "protocol.records",
        "broker.policy",
        "broker.runtime",
        "coordinator",
        "coordinator.metadata",
        "coordinator.transaction",
        *LEAVES,
    },
}
# broker's own files are either leaves, which see little, or the composition, which sees all.
LEAF_MAY = {"protocol", "coordinator.metadata", *LEAVES}
COMPOSES = {"broker", "broker.cli", "broker.testing"}
