"""All planted bugs, room after room."""

from __future__ import annotations

from tests.mutants.rooms import (
    api,
    classic,
    client,
    controller,
    groups,
    log,
    network,
    protocol,
    replica,
    runtime,
    security,
    spark,
    store,
    strangers,
    transactions,
    wiring,
)

MUTANTS = (
    *api.MUTANTS,
    *network.MUTANTS,
    *runtime.MUTANTS,
    *log.MUTANTS,
    *replica.MUTANTS,
    *controller.MUTANTS,
    *store.MUTANTS,
    *groups.MUTANTS,
    *transactions.MUTANTS,
    *security.MUTANTS,
    *strangers.MUTANTS,
    *wiring.MUTANTS,
    *client.MUTANTS,
    *classic.MUTANTS,
    *spark.MUTANTS,
    *protocol.MUTANTS,
)

# Invariants without a bug, each with the reason.
NOT_PLANTED = {
    "The compiled codec measures a record first and writes it then.": (
        "it is in compiled code, which a copy of the tree does not build"
    ),
    "A signal handler never runs during a call to Java.": (
        "what breaks is chance: a call of Java has to be under way when the signal comes"
    ),
}
