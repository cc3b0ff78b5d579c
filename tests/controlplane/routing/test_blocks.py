"""The approximate index of what an engine has cached."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.blocks import BLOCK_BYTES, MOST_BLOCKS, BlockIndex, capacity_of, chain_of


def prompt(*blocks: int) -> bytes:
    return b"".join(bytes([block]) * BLOCK_BYTES for block in blocks)


def common(one: Iterable[int], two: Iterable[int]) -> int:
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def test_equal_blocks_after_different_ones_are_different() -> None:
    assert chain_of(prompt(1, 2))[1] != chain_of(prompt(3, 2))[1]
    assert chain_of(prompt(1, 2))[0] == chain_of(prompt(1, 9))[0]


def test_a_shorter_last_block_counts_and_nothing_has_none() -> None:
    assert len(chain_of(prompt(1) + b"rest")) == 2
    assert chain_of(b"") == []


def test_a_prompt_has_no_more_blocks_than_are_of_use() -> None:
    assert len(chain_of(bytes(BLOCK_BYTES * MOST_BLOCKS * 2))) == MOST_BLOCKS


def test_what_was_not_used_for_the_longest_time_goes_first() -> None:
    index = BlockIndex(capacity=4)
    old, new, third = (chain_of(prompt(*blocks)) for blocks in ((1, 2), (3, 4), (5, 6)))
    for chain in (old, new, old, third):
        index.add(chain)
    assert [index.match(chain) for chain in (old, new, third)] == [2, 0, 2]


def test_of_a_prompt_the_end_is_forgotten_before_the_beginning() -> None:
    index = BlockIndex(capacity=4)
    long, short = chain_of(prompt(1, 2, 3)), chain_of(prompt(9, 9))
    index.add(long)
    index.add(short)
    assert index.match(long) == 2


_prompts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=25)


@given(_prompts, st.integers(6, 40))
def test_the_match_is_the_longest_run_of_blocks_that_is_held_and_memory_is_bounded(
    prompts: list[list[int]], capacity: int
) -> None:
    index = BlockIndex(capacity)
    for blocks in prompts:
        index.add(chain_of(prompt(*blocks)))
        assert len(index) <= capacity
    for blocks in prompts:
        chain = chain_of(prompt(*blocks))
        run = next((place for place, block in enumerate(chain) if block not in index), len(chain))
        assert index.match(chain) == run
    assert index.match(chain_of(prompt(*prompts[-1]))) == len(prompts[-1])


@given(_prompts)
def test_with_room_for_all_the_match_is_what_the_prompts_have_in_common(prompts: list[list[int]]) -> None:
    index = BlockIndex(10_000)
    *earlier, last = prompts
    for blocks in earlier:
        index.add(chain_of(prompt(*blocks)))
    assert index.match(chain_of(prompt(*last))) == max((common(blocks, last) for blocks in earlier), default=0)


def test_the_capacity_follows_the_engine_within_bounds() -> None:
    assert capacity_of(64_000) == 1_000
    assert capacity_of(0) == 1
    assert capacity_of(10**12) == capacity_of(10**9)
