"""What one commit of the log changes, and who waits for it."""

import asyncio
from dataclasses import dataclass, field

from controlplane.embedded.small_objects.log import Entry

Waiting = asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class Held:
    """What the log holds of a key, or is about to."""

    number: int
    size: int


@dataclass(slots=True)
class Put:
    """An entry on its way, what the log held of its key before, and who waits for it."""

    entry: Entry
    before: Held | None
    done: Waiting


@dataclass(slots=True)
class Batch:
    """What one commit changes, and who waits for no more than that."""

    puts: list[Put] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    settled: int = 0
    waiting: list[Waiting] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.puts or self.gone or self.settled or self.waiting)
