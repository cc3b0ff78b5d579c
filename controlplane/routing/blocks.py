"""What an engine has probably cached: an approximate index of the prompts that were sent to it. Pure.

A prompt is cut into blocks of 256 bytes (some 64 tokens), each hashed together with all that come before it, so that
equal hashes mean equal beginnings. The index of an instance keeps the hashes of the prompts it was sent, the least
recently used going first, as in the engine itself. A block is always marked after those that follow it; hence whoever
holds a block holds all before it, and the longest match is found by bisection.

Upstream's index (contract, data plane 3.7) has blocks of 64 bytes and forgets all beyond 16,384: four times the memory,
and half of an 8,000-token prompt unseen.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence

BLOCK_BYTES = 256
MOST_BLOCKS = 256
"""Of one prompt: 64 KiB."""

DEFAULT_CAPACITY = 8_192
"""Blocks of one instance: some 500,000 tokens, the upstream default of 31,250 blocks of 16."""

LARGEST_CAPACITY = 32_768
BYTES_A_TOKEN = 4

Chain = Sequence[int]
"""The hashes of a prompt's blocks, each covering all that comes before it. Good within one process only."""


def chain_of(prompt: bytes) -> Chain:
    """The chain of a prompt; a shorter last block counts, a prompt of nothing has none."""
    chain, previous = [], 0
    for start in range(0, min(len(prompt), MOST_BLOCKS * BLOCK_BYTES), BLOCK_BYTES):
        previous = hash((previous, prompt[start : start + BLOCK_BYTES]))
        chain.append(previous)
    return chain


def capacity_of(tokens: int) -> int:
    """How many blocks stand for an engine's cache of so many tokens."""
    return max(1, min(tokens * BYTES_A_TOKEN // BLOCK_BYTES, LARGEST_CAPACITY))


class BlockIndex:
    """The blocks that one instance has probably cached."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self._held: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, block: int) -> bool:
        return block in self._held

    def match(self, chain: Chain) -> int:
        """How many blocks from the start of `chain` are held."""
        if not chain or chain[0] not in self._held:
            return 0
        return bisect_left(chain, True, key=lambda block: block not in self._held)

    def add(self, chain: Chain) -> None:
        """Mark a prompt as sent now."""
        held = self._held
        for block in reversed(chain[: self.capacity]):
            held[block] = None
            held.move_to_end(block)
        while len(held) > self.capacity:
            held.popitem(last=False)
