"""What one commit of the log changes, and who waits for it."""

import asyncio
from dataclasses import dataclass, field

from controlplane.embedded.small_objects.log import Entry

Waiting = asyncio.Future[None]
Place = tuple[str, str]
"""Bucket and key."""


@dataclass(frozen=True, slots=True)
class Held:
    """What the log holds of an object that is written."""

    number: int
    size: int


@dataclass(slots=True, eq=False)
class Put:
    """An entry on its way, who waits for it, and whether it was removed meanwhile."""

    entry: Entry
    done: Waiting
    is_removed: bool = False

    @property
    def place(self) -> Place:
        """Where it is to be."""
        return self.entry.bucket, self.entry.key


@dataclass(slots=True)
class Batch:
    """What one commit changes, and who waits for no more than that."""

    puts: list[Put] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    settled: int = 0
    waiting: list[Waiting] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.puts or self.gone or self.settled or self.waiting)
