"""Docstrings of the blocking clients that differ from those of the asyncio clients, and the parts
of an ``Admin``."""

from __future__ import annotations

import inspect
import re
from typing import Any

# The parts of an Admin.
PARTS = {
    "groups": ("groups", "GroupAdmin"),
    "placements": ("placements", "Placements"),
    "transactions": ("transactions", "TransactionAdmin"),
    "features": ("features", "FeatureAdmin"),
    "quotas": ("quotas", "QuotaAdmin"),
    "tokens": ("tokens", "TokenAdmin"),
    "users": ("users", "UserAdmin"),
    "brokers": ("brokers", "BrokerAdmin"),
    "acls": ("acls", "AclAdmin"),
}
# A docstring with sections ends on a line of its own.
SECTION = re.compile(r"^(Args|Returns|Raises|Example):$", re.MULTILINE)
# Where the sentence of the asyncio client is not true of this one.
SENTENCES = {
    "ParallelRun": "A run of many handlers: call ``run`` once, to begin it and to wait for its end."
}
EXAMPLES = {
    "Producer": [
        'with ottla.sync.Producer("127.0.0.1:9092", linger_ms=20) as producer:',
        '    delivered = producer.send("orders", b"value", key=b"key").result()',
    ],
    "Consumer": [
        'with ottla.sync.Consumer("127.0.0.1:9092", group_id="billing") as consumer:',
        '    consumer.subscribe(["orders"])',
        "    for record in consumer:",
        "        print(record.offset, record.value)",
    ],
    "Admin": [
        'with ottla.sync.Admin("127.0.0.1:9092") as admin:',
        '    admin.create_topic(ottla.NewTopic("orders", partition_count=6))',
    ],
}


def docstring(member: Any) -> str:
    """The docstring of the asyncio method, whole; empty if it has none."""
    return inspect.cleandoc(member.__doc__ or "").replace("``async with``", "``with``")
