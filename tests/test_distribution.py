"""How the files of a parallel run are handed out."""

from pathlib import Path

import pytest

from tests.distribution import LONGEST_FIRST, TOGETHER, rank, unit


def test_the_folders_named_are_there() -> None:
    here = Path(__file__).parent
    assert all((here / name).is_dir() for name in (*LONGEST_FIRST, *TOGETHER))


def test_a_file_stays_together_and_a_folder_that_shares_installations_too() -> None:
    assert unit("tests/wire/test_doors.py::test_a[x::y]") == "tests/wire/test_doors.py"
    assert {unit(f"tests/browser/test_{name}.py::test_a") for name in "ab"} == {"browser"}


def test_what_takes_longest_is_begun_first(request: pytest.FixtureRequest) -> None:
    ranks = [rank(item) for item in request.session.items]
    assert ranks == sorted(ranks)
    assert rank(request.node) == len(LONGEST_FIRST)
