"""Which principal may speak as which broker: ``ottla.broker.principals``. Pure.

Without it each principal with ClusterAction may speak as every broker, as in Kafka.
"""

from __future__ import annotations

from functools import lru_cache

ID = "{id}"


def may_speak_as(templates: str, principal: str, node_id: int) -> bool:
    """Whether the setting lets that principal speak as the broker of that id.

    Args:
        templates: The setting: principals with ``{id}``, separated by semicolons; empty for no
            limit. Several of them count while the brokers change from one to another.
        principal: Such as ``User:broker-3``.
        node_id: The broker that a request claims to come from.
    """
    return not templates or principal in _principals_of(templates, node_id)


@lru_cache(maxsize=4096)
def _principals_of(templates: str, node_id: int) -> frozenset[str]:
    return frozenset(
        item.strip().replace(ID, str(node_id)) for item in templates.split(";") if item.strip()
    )
