"""The arithmetic of the picture."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.simulator.series import counts, means, nice_steps, stacked

_changes = st.lists(st.tuples(st.floats(0, 99), st.integers(-3, 3)), max_size=20)


@given(_changes, st.integers(1, 17))
def test_means_keep_the_area(changes: list[tuple[float, int]], bins: int) -> None:
    area = sum((100 - at) * change for at, change in changes)
    assert sum(means(changes, 100.0, bins)) * 100 / bins == pytest.approx(area, abs=1e-6)


def test_a_span_that_is_half_covered_has_half_the_level() -> None:
    assert means([(5.0, 2), (20.0, -2)], 40.0, 4) == [1.0, 2.0, 0.0, 0.0]


@given(st.lists(st.floats(0, 100)), st.integers(1, 9))
def test_every_time_is_counted_once(times: list[float], bins: int) -> None:
    assert sum(counts(times, 100.0, bins)) == len(times)


def test_layers_stand_on_each_other() -> None:
    assert stacked([[1.0, 2.0], [3.0, 0.0]]) == [[1.0, 2.0], [4.0, 2.0]]
    assert stacked([]) == []


@given(st.floats(0, 1e7))
def test_the_axis_reaches_the_highest_value_in_few_round_steps(high: float) -> None:
    steps = nice_steps(high)
    assert steps[0] == 0
    assert steps[-1] >= high
    assert 2 <= len(steps) <= 12
