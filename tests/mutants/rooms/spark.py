"""Bugs in the data source of Spark and its jobs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "repeated-first-batch-begins-elsewhere",
        "client/spark/plan.py",
        "        where: end.begins.get(where, start.offsets.get(where, 0)) "
        "for where in sorted(end.offsets)\n",
        "        where: start.offsets.get(where, 0) for where in sorted(end.offsets)\n",
        "A repeated first micro-batch begins where the first attempt began.",
        ("tests/client/spark/test_plan.py",),
    ),
    Mutant(
        "task-0-committed-with-the-others",
        "client/spark/sink_ledger.py",
        "        return CommitDecision(is_new=True, rest=tuple(range(1, len(parts))))\n",
        "        return CommitDecision(rest=tuple(range(len(parts))))\n",
        "The driver commits task 0 before the other tasks.",
        ("tests/client/spark/test_sink_ledger.py",),
    ),
    Mutant(
        "expired-ledger-begins-anew",
        "client/spark/sink_ledger.py",
        "        if zero is None and is_late and not may_begin:\n",
        "        if False:\n",
        "A ledger that may have expired is not taken for a new query.",
        ("tests/client/spark/test_sink_ledger.py", "tests/client/spark/test_sink_expiry.py"),
    ),
    Mutant(
        "load-appears-before-its-offsets",
        "client/spark/jobs/load.py",
        "        self.files.write(whole.text(), STAGING, FILE)\n"
        "        self.files.rename(STAGING, directory(manifest.number))\n",
        "        self.files.rename(STAGING, directory(manifest.number))\n"
        "        self.files.write(whole.text(), directory(manifest.number), FILE)\n",
        "The rows and the offsets of a load appear with one rename.",
        ("tests/client/spark/jobs/test_load.py",),
    ),
)
