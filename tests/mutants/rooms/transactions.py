"""Bugs in the transaction coordinator and in how partitions end transactions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "answer-taken-for-a-later-end",
        "coordinator/transaction/owed.py",
        "            if order.is_over:\n                continue\n",
        "",
        "A result for one end of a transaction is never applied to the next one.",
        ("tests/coordinator/transaction/test_owed.py",),
    ),
    Mutant(
        "answer-of-a-deposed-leader-counts",
        "coordinator/transaction/owed.py",
        "                elif order.open[partition] is not parcel:\n"
        "                    # Queued for another leader, whose response counts.\n"
        "                    continue\n",
        "",
        "A refusal by a broker that leads no more does not end what is owed.",
        ("tests/coordinator/transaction/test_owed.py",),
    ),
    Mutant(
        "two-ends-of-a-producer-in-one-request",
        "coordinator/transaction/owed.py",
        "            if order.markers.producer_id in producer_ids:\n"
        "                # Responses name only the producer id.\n"
        "                continue\n",
        "",
        "No two markers of one producer go to a broker together.",
        ("tests/coordinator/transaction/test_owed.py",),
    ),
    Mutant(
        "yes-counts-for-a-fallen-guard",
        "broker/replica/verification.py",
        "        self.is_confirmed = self.is_standing\n        return self.is_confirmed\n",
        "        self.is_confirmed = True\n        return True\n",
        "An answer about a transaction counts only while its guard exists.",
        (
            "tests/broker/replica/test_verification.py",
            "tests/broker/handlers/transactions/test_late_produces.py",
        ),
    ),
    Mutant(
        "replaced-coordinator-writes-markers",
        "broker/replica/producers.py",
        "        if marker.coordinator_epoch < state.coordinator_epoch:\n"
        "            return AppendVerdict("
        "AppendAction.REFUSE, ErrorCode.TRANSACTION_COORDINATOR_FENCED)\n",
        "",
        "A coordinator that has been replaced is fenced.",
        ("tests/broker/replica/test_producers.py",),
    ),
    Mutant(
        "repeated-marker-is-written",
        "broker/replica/producers.py",
        "        return APPEND if is_new else AppendVerdict(AppendAction.DUPLICATE)\n",
        "        return APPEND\n",
        "A transaction's marker that is repeated is answered and not written.",
        ("tests/broker/replica/test_producers.py",),
    ),
    Mutant(
        "late-marker-ends-the-next-transaction",
        "broker/replica/producers.py",
        "            is_late = transaction_version >= 2 and "
        "marker.producer_epoch == state.producer_epoch\n",
        "            is_late = False\n",
        "A late marker of the transaction before does not end the next one.",
        ("tests/broker/partitions/test_markers_written.py",),
    ),
    Mutant(
        "old-coordinator-is-asked",
        "broker/coordinating/txn_verification.py",
        "        if epoch < known_epoch:\n",
        "        if False:\n",
        "A coordinator older than one that has ended a transaction there is not asked.",
        ("tests/broker/coordinating/test_txn_verification.py",),
    ),
)
