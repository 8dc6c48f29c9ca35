"""Ottla: a cluster of asyncio brokers that speaks Apache Kafka's own wire protocol.

The packages live at the top of the repository (``broker``, ``client``, ``coordinator``,
``protocol``) and are installed as ``ottla.broker`` and so on. Importing this package loads
none of them.
"""

from __future__ import annotations

import os as _os

__version__ = "0.1.0"

_here = _os.path.dirname(__file__)
if not _os.path.isdir(_os.path.join(_here, "broker")):
    # A checkout without symbolic links (a zip archive, Windows): look beside this folder.
    __path__.append(_os.path.dirname(_here))
