"""A connection for the statements of each request, against the real database."""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
import uvloop

from controlplane.invocations import columns
from controlplane.invocations import line as line_module
from controlplane.invocations.line import Line, Row, Statement
from tests.fakes.relay import Relay

QUOTIENT = Statement("quotient", "SELECT %(a)s::int / %(b)s::int, %(a)s::int %% 10", a=columns.integer, b=columns.integer)
LENGTH = Statement("length", "SELECT length(%(data)s::bytea)", data=columns.blob)
SET = Statement("set", "SELECT set_config('line.test', %(value)s::text, true)", value=columns.text)
SHOW = Statement("show", "SELECT current_setting('line.test', true)")
SLEEP = Statement("sleep", "SELECT pg_sleep(60)")
LEAVE = Statement("leave", "SELECT pg_terminate_backend(pg_backend_pid())")
PID = Statement("pid", "SELECT pg_backend_pid()")
WRONG = Statement("wrong", "SELEC 1")

LONG_SECONDS = 25.0
"""More than a machine stands still, and less than a connection without an answer is waited for."""

Work = Callable[[Line], Awaitable[Any]]


def on_a_line(work: Work, *statements: Statement, url: str = "", lost: Callable[[], None] | None = None) -> Any:
    """What `work` returns, done with a line that knows these statements, or all but the wrong one."""
    known = statements or (QUOTIENT, LENGTH, SET, SHOW, SLEEP, LEAVE, PID)

    async def main() -> Any:
        line = Line(url or os.environ["HEADRACE_DATABASE_URL"], *known, lost=lost)
        try:
            return await work(line)
        finally:
            await line.close()

    return asyncio.run(main())


def divided(a: int, b: int) -> tuple[Statement, dict[str, int]]:
    return QUOTIENT, {"a": a, "b": b}


def test_values_go_and_come_in_their_own_types() -> None:
    async def work(line: Line) -> list[Row]:
        return await line.ask(divided(43, 4))

    assert on_a_line(work) == [(10, 3)]


def test_what_is_asked_meanwhile_is_answered_in_order_and_one_error_is_its_own() -> None:
    async def work(line: Line) -> list[Any]:
        asked = [line.ask(divided(12, number)) for number in (1, 0, 3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second, third = on_a_line(work)
    assert (first, third) == ([(12, 2)], [(4, 2)])
    assert isinstance(second, psycopg.errors.DivisionByZero)


def test_what_is_asked_together_is_one_transaction_and_answers_with_its_last_statement() -> None:
    async def work(line: Line) -> tuple[list[Row], list[Row]]:
        return await line.ask((SET, {"value": "here"}), (SHOW, {})), await line.ask((SHOW, {}))

    assert on_a_line(work) == ([("here",)], [("",)])


def test_an_error_undoes_what_was_asked_together_with_it() -> None:
    async def work(line: Line) -> Any:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await line.ask((SET, {"value": "here"}), divided(1, 0), (SHOW, {}))
        return await line.ask((SHOW, {}))

    assert on_a_line(work) in ([(None,)], [("",)])


def test_more_than_the_socket_takes_at_once_arrives_whole_in_both_orders() -> None:
    sizes = [3_000_000, 1, 5_000_000, 70_000] * 4

    async def work(line: Line) -> list[list[Row]]:
        return await asyncio.gather(*(line.ask((LENGTH, {"data": b"x" * size})) for size in sizes))

    assert on_a_line(work) == [[(size,)] for size in sizes]


def test_a_parameter_that_is_missing_is_told_before_anything_is_sent() -> None:
    async def work(line: Line) -> list[Row]:
        with pytest.raises(KeyError, match="b"):
            line.ask((QUOTIENT, {"a": 1}))
        return await line.ask(divided(1, 1))

    assert on_a_line(work) == [(1, 1)]


@pytest.mark.parametrize("wrong", [2**40, -(2**31) - 1], ids=["too large", "too small"])
def test_a_value_that_its_type_cannot_hold_is_refused_as_the_database_would(wrong: int) -> None:
    async def work(line: Line) -> list[Any]:
        return await asyncio.gather(line.ask(divided(wrong, 1)), line.ask(divided(9, 3)), return_exceptions=True)

    refused, good = on_a_line(work)
    assert isinstance(refused, psycopg.DataError)
    assert good == [(3, 9)]


def test_a_statement_that_is_not_answered_keeps_nobody_waiting_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next is answered at once, so over another connection: the first one is asleep."""

    async def work(line: Line) -> tuple[list[Any], list[Row]]:
        async with asyncio.timeout(LONG_SECONDS):
            with monkeypatch.context() as hasty:
                hasty.setattr(line_module, "ANSWER_SECONDS", 0.2)
                silent = await asyncio.gather(line.ask((SLEEP, {})), line.ask((PID, {})), return_exceptions=True)
            return silent, await line.ask(divided(9, 3))

    silent, next_one = on_a_line(work)
    assert [type(each) for each in silent] == [psycopg.OperationalError] * 2
    assert next_one == [(3, 9)]


def test_closing_fails_what_waits_for_the_connection() -> None:
    async def work(line: Line) -> list[Any]:
        waiting = line.ask((PID, {}))
        await line.close()
        return await asyncio.gather(waiting, return_exceptions=True)

    assert [type(each) for each in on_a_line(work)] == [psycopg.OperationalError]


def test_a_connection_that_is_lost_fails_what_is_under_way_is_told_and_replaced() -> None:
    losses: list[None] = []

    async def work(line: Line) -> tuple[list[Any], bool]:
        [[before]] = await line.ask((PID, {}))
        asked = [line.ask((LEAVE, {})), line.ask((PID, {})), line.ask((PID, {}))]
        failed = await asyncio.gather(*asked, return_exceptions=True)
        [[after]] = await line.ask((PID, {}))
        return failed, before != after

    failed, is_another = on_a_line(work, lost=lambda: losses.append(None))
    assert [isinstance(each, psycopg.OperationalError) for each in failed] == [True] * 3
    assert len({id(each) for each in failed}) == 3
    assert is_another
    assert len(losses) == 2  # by its loss, and by its closing


def test_a_connection_that_is_lost_while_idle_is_told_at_once_and_costs_nobody_anything() -> None:
    lost = asyncio.Event()

    async def work(line: Line) -> bool:
        [[before]] = await line.ask((PID, {}))
        async with await psycopg.AsyncConnection.connect(os.environ["HEADRACE_DATABASE_URL"], autocommit=True) as other:
            await other.execute("SELECT pg_terminate_backend(%s)", [before])
        async with asyncio.timeout(LONG_SECONDS):
            await lost.wait()
        [[after]] = await line.ask((PID, {}))
        return bool(before != after)

    assert on_a_line(work, lost=lost.set)


def test_without_a_database_everybody_who_asked_is_told() -> None:
    async def work(line: Line) -> list[Any]:
        return await asyncio.gather(line.ask((PID, {})), line.ask((PID, {})), return_exceptions=True)

    failed = on_a_line(work, url="postgresql://127.0.0.1:1/nowhere")
    assert [type(each) for each in failed] == [psycopg.OperationalError] * 2


def test_a_statement_that_the_database_refuses_is_told_by_its_error() -> None:
    async def work(line: Line) -> None:
        with pytest.raises(psycopg.OperationalError, match="syntax error"):
            await line.ask((WRONG, {}))

    on_a_line(work, WRONG)


class CuttingProxy:
    """Passes bytes on between a line and the database, and hangs up after so many of the database's."""

    def __init__(self, url: str, limit: int) -> None:
        server, _, self._path = url.rpartition("@")[2].partition("/")
        self._account, self._limit = url.rpartition("@")[0], limit
        self._host, _, self._port = server.partition(":")
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")
        port = self._server.sockets[0].getsockname()[1]
        return f"{self._account}@127.0.0.1:{port}/{self._path}?sslmode=disable"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, int(self._port))
        for source, sink, limit in ((reader, back, 10**9), (there, writer, self._limit)):
            task = asyncio.create_task(self._pass_on(source, sink, limit, (writer, back)))
            self._tasks.add(task)

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        limit: int,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        try:
            while limit > 0 and (data := await source.read(65536)):
                sink.write(data[:limit])
                await sink.drain()
                limit -= len(data)
        except OSError:  # either has hung up
            return
        finally:
            for each in both:
                each.close()


ALL_BYTES = 1500
"""More than the database says on such a connection: login, preparing, and three answers."""


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_wherever_a_connection_breaks_off_everybody_who_asked_is_told(loop: Callable[[], Any]) -> None:
    async def broken_off(limit: int) -> list[Any]:
        async with CuttingProxy(os.environ["HEADRACE_DATABASE_URL"], limit) as url:
            line = Line(url, QUOTIENT, LENGTH, PID)
            try:
                asked = [line.ask(divided(12, 4)), line.ask((LENGTH, {"data": b"x" * 9}))]
                first = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), LONG_SECONDS)
                last = await asyncio.wait_for(asyncio.gather(line.ask((PID, {})), return_exceptions=True), LONG_SECONDS)
                return [*first, *last]
            finally:
                await line.close()

    async def main() -> list[list[Any]]:
        return [await broken_off(limit) for limit in range(0, ALL_BYTES, 23)]

    with asyncio.Runner(loop_factory=loop) as runner:
        found = runner.run(main())
    for outcomes in found:
        for good, each in zip([[(3, 2)], [(9,)]], outcomes[:2], strict=True):
            assert each == good or isinstance(each, psycopg.OperationalError)
    assert all(isinstance(each, psycopg.OperationalError) for each in found[0])
    assert not any(isinstance(each, psycopg.OperationalError) for each in found[-1])


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("is_asked", [True, False], ids=["something is under way", "nothing is"])
def test_a_killed_database_that_says_something_before_is_noticed_at_once(loop: Callable[[], Any], is_asked: bool) -> None:
    """uvloop calls once for the words and the reset together, and never again."""
    lost = asyncio.Event()

    async def main() -> list[Row]:
        with Relay(os.environ["HEADRACE_DATABASE_URL"]) as relay:
            line = Line(relay.url, PID, SLEEP, lost=lost.set)
            try:
                await line.ask((PID, {}))
                asked = [line.ask((SLEEP, {}))] * is_asked
                relay.crash()  # before the loop looks
                async with asyncio.timeout(LONG_SECONDS):
                    failed = await asyncio.gather(*asked, return_exceptions=True)
                    await lost.wait()
                    assert [type(each) for each in failed] == [psycopg.OperationalError] * is_asked
                    return await line.ask((PID, {}))
            finally:
                await line.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        assert len(runner.run(main())) == 1


def test_a_caller_that_goes_disturbs_nobody() -> None:
    async def work(line: Line) -> list[Row]:
        await line.ask((PID, {}))
        line.ask(divided(1, 1)).cancel()
        line.ask(divided(1, 0)).cancel()
        return await line.ask(divided(9, 3))

    assert on_a_line(work) == [(3, 9)]


def test_after_closing_it_opens_again_for_whoever_asks() -> None:
    async def work(line: Line) -> list[Row]:
        await line.ask((PID, {}))
        await line.close()
        return await line.ask(divided(9, 3))

    assert on_a_line(work) == [(3, 9)]


def test_parameters_are_packed_in_the_order_in_which_they_are_declared() -> None:
    assert QUOTIENT.packed({"b": 2, "a": 1}) == [struct.pack(">i", 1), struct.pack(">i", 2)]
    assert QUOTIENT.sql == b"SELECT $1::int / $2::int, $1::int % 10"
