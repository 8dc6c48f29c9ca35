"""Lines of the audit log, and those that were left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.coordinating.audit_topic import AuditTopic
    from ottla.broker.metrics.exposition import Family
    from ottla.broker.security.audit import Audit


def audit_families(audit: Audit, topic: AuditTopic | None) -> Iterator[Family]:
    """What an alarm on the audit log watches. ``topic``: None without ``ottla.audit.topic``."""
    yield counter("ottla_audit_lines_total", "Lines of the audit log.", audit.line_count)
    yield counter(
        "ottla_audit_refusals_left_out_total",
        "Refusals without a line of their own, because they repeat others.",
        audit.left_out_count,
    )
    yield gauge(
        "ottla_audit_log_failed",
        "1 if the last line could not be appended to the file of ottla.audit.log.",
        int(audit.has_failed),
    )
    if topic is not None:
        yield gauge(
            "ottla_audit_topic_waiting",
            "Lines of the audit log that are not in the topic __audit yet.",
            topic.waiting_count,
        )
        yield counter(
            "ottla_audit_topic_left_out_total",
            "Lines of the audit log that will not be in the topic __audit.",
            topic.left_out_count,
        )
