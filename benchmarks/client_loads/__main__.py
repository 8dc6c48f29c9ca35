"""Reads its orders as one JSON line from standard input, writes one with what it saw."""

from __future__ import annotations

import importlib
import json
import sys

from benchmarks.client_loads.orders import Orders


def main() -> None:
    """Run the load that is named ``module.function``."""
    orders = Orders(**json.loads(sys.stdin.readline()))
    module, _, function = orders.load.partition(".")
    loads = importlib.import_module(f"benchmarks.client_loads.{module}")
    seen = getattr(loads, function)(orders)
    sys.stdout.write(json.dumps(seen.figures()) + "\n")


if __name__ == "__main__":
    main()
