"""Virtual time: a heap of what is to happen, walked from event to event."""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2027, 1, 4, tzinfo=UTC)
"""Every scenario starts on the same Monday, so that its sentences are the same every time."""

PROGRESS_EVENTS = 1000

Progress = Callable[[float, int], None]
"""Told the share of the simulated time that has passed, and the number of events so far."""


class Timeline:
    """`now` and what comes; events of one time happen in the order in which they were put in."""

    def __init__(self, duration_seconds: float) -> None:
        self.end = START + timedelta(seconds=duration_seconds)
        self.now = START
        self.events = 0
        self._heap: list[tuple[datetime, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = 0

    @property
    def seconds(self) -> float:
        """Since the start."""
        return (self.now - START).total_seconds()

    def at(self, when: datetime, happen: Callable[..., None], *subjects: Any) -> None:
        """Let `happen(*subjects)` be called at this time, or now if it is past; never beyond the end."""
        if when >= self.end:
            return
        self._numbers += 1
        heapq.heappush(self._heap, (max(when, self.now), self._numbers, happen, subjects))

    def after(self, seconds: float, happen: Callable[..., None], *subjects: Any) -> None:
        """The same, so many seconds from now."""
        self.at(self.now + timedelta(seconds=seconds), happen, *subjects)

    def run(self, progress: Progress | None = None) -> None:
        """Walk to the end."""
        heap = self._heap
        while heap:
            self.now, _, happen, subjects = heapq.heappop(heap)
            happen(*subjects)
            self.events += 1
            if progress is not None and self.events % PROGRESS_EVENTS == 0:
                progress((self.now - START) / (self.end - START), self.events)
        self.now = self.end
