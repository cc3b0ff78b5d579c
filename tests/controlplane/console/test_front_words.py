"""Times, money and counts as operators read them."""

from datetime import timedelta

import pytest

from controlplane.console import words
from controlplane.console.masking import HIDDEN, masked
from tests.fakes.clock import START


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (42.9, "42 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (36_000, "10 h"),
        (90_000, "1 d 1 h"),
        (864_000, "10 d"),
        (864_000 + 7200, "10 d"),
    ],
    ids=str,
)
def test_a_duration_has_its_largest_unit(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


def test_times_are_told_from_now() -> None:
    assert words.ago(START - timedelta(minutes=3), START) == "3 min ago"
    assert words.ago(START + timedelta(seconds=20), START) == "in 20 s"
    assert words.ago(START + timedelta(seconds=0.4), START) == "now"
    assert words.exact(START).endswith(" UTC")


@pytest.mark.parametrize(
    ("amount", "text"), [(None, "-"), (0, "$0.00"), (0.0464, "$0.0464"), (1234.5, "$1,234.50"), (0.5, "$0.50")], ids=str
)
def test_money_is_told_to_the_cent_or_finer(amount: float | None, text: str) -> None:
    assert words.dollars(amount) == text


def test_the_values_of_environments_are_hidden_wherever_they_stand() -> None:
    request = {
        "PrimaryContainer": {"Image": "i", "Environment": {"HF_TOKEN": "hf_x"}},
        "Containers": [{"Environment": {"A": "b"}}],
    }
    assert masked(request) == {
        "PrimaryContainer": {"Image": "i", "Environment": {"HF_TOKEN": HIDDEN}},
        "Containers": [{"Environment": {"A": HIDDEN}}],
    }
