"""Whether what is compiled may be used: ``OTTLA_PURE=1`` in the environment says no.

That is how a doubt about compiled code is settled where it runs, and how the tests and benchmarks
of the plain Python twins keep to them.
"""

from __future__ import annotations

import os


def may_be_compiled() -> bool:
    """Asked once by each module that has a choice."""
    return os.environ.get("OTTLA_PURE", "") in ("", "0")
