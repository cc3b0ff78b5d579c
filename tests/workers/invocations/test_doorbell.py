"""Hearing of what was queued, over the real database."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
import pytest
import uvloop

from controlplane.core.keep_going import keep_going
from tests.controlplane.routing.peers import PATIENCE_SECONDS, until
from tests.fakes.relay import Relay
from tests.workers.invocations.site import database_url
from workers.invocations import doorbell
from workers.invocations.doorbell import Doorbell

pytestmark = pytest.mark.django_db(transaction=True)

CHANNEL = "doorbell_tests"


CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    f" WHERE query = 'LISTEN \"{CHANNEL}\"' AND datname = current_database()"
)


def listening(work: Callable[[list[str]], Coroutine[Any, Any, None]], url: str = "") -> None:
    """Do this, on the loop that workers have, while what is heard is written down."""

    async def main() -> None:
        heard: list[str] = []
        ringing = asyncio.create_task(Doorbell(url or database_url(), CHANNEL, heard.append).run())
        try:
            await until(lambda: heard == [""])
            await work(heard)
        finally:
            ringing.cancel()
            await asyncio.gather(ringing, return_exceptions=True)

    uvloop.run(main())


def execute(statement: str) -> None:
    with psycopg.connect(database_url(), autocommit=True) as connection:
        connection.execute(statement)


def test_each_notification_is_heard_with_what_it_says() -> None:
    async def work(heard: list[str]) -> None:
        for each in ("one", "two"):
            execute(f"NOTIFY {CHANNEL}, '{each}'")
        execute("NOTIFY another_channel, 'three'")
        await until(lambda: len(heard) == 3)
        assert heard == ["", "one", "two"]

    listening(work)


def test_after_a_lost_connection_it_listens_again_and_says_that_it_may_have_missed_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doorbell, "AGAIN_SECONDS", 0.05)

    async def work(heard: list[str]) -> None:
        execute(CUT)
        await until(lambda: heard == ["", ""])
        execute(f"NOTIFY {CHANNEL}, 'again'")
        await until(lambda: heard == ["", "", "again"])

    listening(work)


def test_a_killed_database_that_says_something_before_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop tells of the words and the reset together, and of nothing more."""
    monkeypatch.setattr(doorbell, "AGAIN_SECONDS", 0.05)
    with Relay(database_url()) as relay:

        async def work(heard: list[str]) -> None:
            relay.crash()  # before the loop looks
            await until(lambda: heard == ["", ""])
            execute(f"NOTIFY {CHANNEL}, 'again'")
            await until(lambda: heard == ["", "", "again"])

        listening(work, relay.url)


def test_a_notice_that_cannot_be_understood_deafens_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody who may use the database may say anything there; the bell rings on."""
    monkeypatch.setattr(doorbell, "AGAIN_SECONDS", 0.05)
    heard: list[str] = []

    def rung(notice: str) -> None:
        if notice == "nonsense":
            raise ValueError("not understood")
        heard.append(notice)

    async def main() -> None:
        ringing = asyncio.create_task(keep_going(Doorbell(database_url(), CHANNEL, rung).run))
        try:
            await until(lambda: heard == [""])
            execute(f"NOTIFY {CHANNEL}, 'nonsense'")
            await until(lambda: heard == ["", ""])
            execute(f"NOTIFY {CHANNEL}, 'again'")
            await until(lambda: heard[2:] == ["again"])
        finally:
            ringing.cancel()
            await asyncio.gather(ringing, return_exceptions=True)

    uvloop.run(main())


def test_after_a_lost_connection_others_that_get_its_socket_s_number_are_heard() -> None:
    async def work(heard: list[str]) -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        before = set(os.listdir("/proc/self/fd"))
        execute(CUT)
        await until(lambda: bool(before - set(os.listdir("/proc/self/fd"))))
        async with server, asyncio.timeout(PATIENCE_SECONDS):
            for reader, writer in [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]:
                assert await reader.read() == b""
                writer.close()

    listening(work)
