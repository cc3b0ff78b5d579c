"""A worker whose dispatcher does nothing any more ends, and says where everything stood."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from tests.controlplane.gateway.site import wait_for
from tests.workers.invocations.site import database_url
from workers import watch
from workers.invocations.rounds import Rounds
from workers.residents import Residents
from workers.watch import LOOKS, Stillness


@given(st.lists(st.integers(0, 2), max_size=200))
def test_it_is_still_once_so_many_looks_have_found_nothing_moved(steps: list[int]) -> None:
    stillness, moves, since = Stillness(), 0, -1
    for step in steps:
        moves += step
        since = 0 if step or since < 0 else since + 1
        assert stillness.is_still(moves) == (since >= LOOKS)


def test_a_dispatcher_that_never_began_is_still_too() -> None:
    stillness = Stillness()
    assert [stillness.is_still(0) for _ in range(LOOKS + 1)] == [False] * LOOKS + [True]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the process would end; looks are taken quickly."""
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watch, "LOOKS", 4)
    return threading.Event()


@pytest.fixture
def resident(ended: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[Residents]:
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, database_url=database_url()))
    made = Residents(ended.set)
    yield made
    made.stop()


async def _hangs(rounds: Rounds) -> None:
    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=5)


async def _is_cancelled(rounds: Rounds) -> None:
    raise asyncio.CancelledError


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("work", "said"),
    [(_hangs, "in _hangs"), (_is_cancelled, "has ended by a fault")],
    ids=["hangs", "ends"],
)
def test_a_worker_whose_dispatcher_is_no_more_ends(
    resident: Residents,
    ended: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    work: Callable[[Rounds], Awaitable[None]],
    said: str,
) -> None:
    monkeypatch.setattr(Rounds, "work", work)
    resident.start()
    assert ended.wait(30)
    wait_for(lambda: said in caplog.text)


@pytest.mark.django_db(transaction=True)
def test_a_dispatcher_that_has_nothing_to_do_moves_all_the_same(
    resident: Residents, ended: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOKS", LOOKS)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 1.0)
    resident.start()
    seen = set[int]()

    def moves() -> int:
        if resident._dispatcher is not None:
            seen.add(resident._dispatcher.moves)
        return len(seen)

    wait_for(lambda: moves() > 3, 30)
    resident.stop()
    assert not ended.is_set()
