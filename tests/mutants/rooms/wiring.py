"""Bugs in how a broker is put together from its settings."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "offsets-commit-timeout-ignored",
        "broker/assembly.py",
        "parts = _shard_parts(machinery, flushes, config.offsets_commit_timeout_ms)",
        "parts = _shard_parts(machinery, flushes, _TRANSACTION_COMMIT_TIMEOUT_MS)",
        "A commit waits for offsets.commit.timeout.ms.",
        ("tests/broker/api/test_commit_timeout.py",),
    ),
    Mutant(
        "sendfile-never-used",
        "broker/listening.py",
        "    transport = PlaintextTransport if config.fetch_zero_copy else BufferedTransport\n",
        "    transport = BufferedTransport\n",
        "A fetch over plaintext goes from the file to the socket inside the kernel.",
        ("tests/broker/api/test_zero_copy.py",),
    ),
)
