"""An answer that comes later: a handler creates it, the part that learns the outcome completes it.

No future and no task: a parked request is one small object and one callback.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Answer = TypeVar("Answer")


class DeferredAnswer(Generic[Answer]):
    """Completed exactly once; delivers to ``then``'s callback whichever of the two comes last."""

    __slots__ = ("_answer", "_deliver")

    def __init__(self) -> None:
        self._deliver: Callable[[Answer], object] | None = None
        self._answer: Answer | None = None

    @property
    def is_complete(self) -> bool:
        return self._answer is not None

    def complete(self, answer: Answer) -> None:
        """Give the answer. A second one would reach the client as the reply to another request."""
        assert self._answer is None, "a request was answered twice"
        self._answer = answer
        if self._deliver is not None:
            self._deliver(answer)

    def then(self, deliver: Callable[[Answer], object]) -> None:
        """Register the callback that receives the answer."""
        assert self._deliver is None, "an answer has one receiver"
        self._deliver = deliver
        if self._answer is not None:
            deliver(self._answer)


def gathered(
    parts: Sequence[DeferredAnswer[Any]], build: Callable[[list[Any]], Answer]
) -> DeferredAnswer[Answer]:
    """Combine the parts' answers, in their order, once all of them are complete."""
    whole: DeferredAnswer[Answer] = DeferredAnswer()
    answers: list[Any] = [None] * len(parts)
    open_count = len(parts)

    def take(index: int, answer: Any) -> None:
        nonlocal open_count
        answers[index] = answer
        open_count -= 1
        if open_count == 0:
            whole.complete(build(answers))

    for index, part in enumerate(parts):
        part.then(partial(take, index))
    if not parts:
        whole.complete(build(answers))
    return whole
