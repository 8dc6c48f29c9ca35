"""Cycles between transactions. Kafka isolates no writes, so cycles of writes alone (G0) are
allowed; no order of commits explains a cycle of reads (G1c)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.checker.contents import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.checker.view import View

Graph = dict[int, set[int]]


def circular_flow(view: View) -> Iterator[Finding]:
    """G1c: operations that each read, directly or not, what the other wrote."""
    graph: Graph = defaultdict(set)
    for (key, value), readers in view.readers.items():
        writer = view.writer.get((key, value))
        for reader in readers:
            if writer is not None and writer.index != reader.index:
                graph[writer.index].add(reader.index)
    for component in components(graph):
        told = f"operations {sorted(component)[:10]} read from each other in a circle"
        yield Finding("G1c", "", tuple(sorted(component)), told)


def components(graph: Graph) -> Iterator[set[int]]:
    """Strongly connected components of two nodes or more (Tarjan), without recursion."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    for root in list(graph):
        if root in order:
            continue
        work = [(root, iter(sorted(graph.get(root, ()))))]
        while work:
            node, following = work[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                stack.append(node)
                waiting.add(node)
            for other in following:
                if other not in order:
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in waiting:
                    low[node] = min(low[node], order[other])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    component = set()
                    while node not in component:
                        last = stack.pop()
                        waiting.discard(last)
                        component.add(last)
                    if len(component) > 1:
                        yield component
