"""Blocking clients: ``ottla.sync.Producer``, ``Consumer`` and ``Admin``.

They wrap the asyncio clients. One thread of the process runs the event loop of all of them; each
method waits for its result there, may be called from any thread, and is ended by Ctrl-C.
"""

from __future__ import annotations

from ottla.client.sync.admin import Admin
from ottla.client.sync.consumer import Consumer
from ottla.client.sync.deliveries import BatchDelivery, Delivery
from ottla.client.sync.producer import Producer

__all__ = ["Admin", "BatchDelivery", "Consumer", "Delivery", "Producer"]
