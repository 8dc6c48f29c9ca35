"""Bugs in what strangers cost, what they see, and what clients do to each other."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "clients-write-the-audit-topic",
        "broker/coordinating/internal_topics.py",
        "_WITHOUT_TOOLS = frozenset({TRANSACTIONS_TOPIC, AUDIT_TOPIC})",
        "_WITHOUT_TOOLS = frozenset({TRANSACTIONS_TOPIC})",
        "Only brokers write the topic of the audit log.",
        ("tests/broker/coordinating/test_audit_topic.py",),
    ),
    Mutant(
        "the-audit-topic-grows-without-bounds",
        "broker/coordinating/audit_topic.py",
        "        if len(self._lines) >= LINES_MAX or size > BYTES_MAX:\n",
        "        if size > 100 * BYTES_MAX:\n",
        "Lines that wait for the audit topic are bounded, and the others are counted.",
        ("tests/broker/coordinating/test_audit_topic.py",),
    ),
    # What strangers cost.
    Mutant(
        "handshakes-have-no-deadline",
        "broker/network/handshakes.py",
        "self._clock.now_ms() + LIMIT_MS)",
        "float('inf'))",
        "A handshake ends at its deadline, also if it has to wait for its turn.",
        ("tests/broker/network/test_handshakes.py",),
    ),
    Mutant(
        "openssl-keeps-the-memory-of-closed-connections",
        "wire/tls/tls_socket.py",
        "        self.session.forget()\n",
        "",
        "A connection that is closed gives OpenSSL's memory back.",
        ("tests/wire/tls/test_tls_socket.py",),
    ),
    # What is shown.
    Mutant(
        "requests-show-their-tokens",
        "protocol/schema.py",
        '_SECRET = frozenset({"auth_bytes", "hmac", "salted_password"})',
        '_SECRET = frozenset({"hmac", "salted_password"})',
        "The text of a request shows no password and no token.",
        ("tests/broker/security/test_secrets_stay_secret.py",),
    ),
    Mutant(
        "a-transaction-is-open-to-other-transactional-ids",
        "broker/replica/verification.py",
        "        if self._is_other(claim):\n",
        "        if self._is_other(claim) and not self._owners:\n",
        "A producer id that a coordinator has confirmed serves its transactional id alone.",
        ("tests/broker/replica/test_verification.py",),
    ),
    Mutant(
        "all-programs-read-protected-nodes",
        "coordinator/store/zookeeper_wire.py",
        "        if not self._others_read or path.startswith(self._secret_paths):\n",
        "        if path.startswith(self._secret_paths):\n",
        "With zookeeper.set.acl only the brokers read their nodes.",
        ("tests/zookeeper/test_protected_nodes.py",),
    ),
)
