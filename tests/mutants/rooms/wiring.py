"""Bugs in how a broker is put together from its settings."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "offsets-commit-timeout-ignored",
        "broker/server/coordinators.py",
        "parts = _shard_parts(shared, flushes, config.offsets_commit_timeout_ms)",
        "parts = _shard_parts(shared, flushes, _TRANSACTION_COMMIT_TIMEOUT_MS)",
        "A commit waits for offsets.commit.timeout.ms.",
        ("tests/broker/handlers/groups/test_commit_timeout.py",),
    ),
    Mutant(
        "sendfile-never-used",
        "broker/server/listening.py",
        "    transport = PlaintextTransport if config.fetch_zero_copy else BufferedTransport\n",
        "    transport = BufferedTransport\n",
        "A fetch over plaintext goes from the file to the socket inside the kernel.",
        ("tests/broker/handlers/data/test_zero_copy.py",),
    ),
    Mutant(
        "ready-before-the-partitions-are-there",
        "broker/server/broker.py",
        "        await self._wait_until_ready()\n",
        "",
        "A broker is ready when every partition has its role.",
        ("tests/broker/controlling/test_restart.py", "tests/broker/server/test_broker.py"),
    ),
    Mutant(
        "clock-read-around-the-seams",
        "broker/partitions/lease.py",
        "from math import inf\n",
        "import time\nfrom math import inf\n\nSTARTED = time.monotonic()\n",
        "Clock, randomness, disk and network are arguments.",
        ("tests/tidy/test_imports.py",),
    ),
    Mutant(
        "help-loads-a-client",
        "client/cli/parsers/topics.py",
        "from ottla.client.cli.position_specs import read_position\n",
        "from ottla.client.admin import Admin as _Admin\n"
        "from ottla.client.cli.position_specs import read_position\n",
        "Help loads no client and no broker.",
        ("tests/client/cli/test_commands_page.py::test_help_loads_no_client_and_no_broker",),
    ),
)
