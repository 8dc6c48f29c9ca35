"""The clients for programs that do not use asyncio: ``ottla.sync.Producer`` and so on.

They are the same clients. One thread of the process runs the event loop of all of them; each
method waits there for its result, may be called by any thread, and is ended by Ctrl-C.
"""

from __future__ import annotations

from ottla.client.sync.admin import Admin
from ottla.client.sync.consumer import Consumer
from ottla.client.sync.deliveries import BatchDelivery, Delivery
from ottla.client.sync.producer import Producer

__all__ = ["Admin", "BatchDelivery", "Consumer", "Delivery", "Producer"]
