"""A connection to PostgreSQL for the few statements of each request: libpq and the event loop, and nothing in between.

    closed ----> something is asked: opening ----> open: asked, answered, in order, many under way at once
      ^                     |                        |
      +---- it fails: so does all that was asked ----+---- the connection is lost: so does all that is under way

Statements are prepared when the connection opens. What is asked together is one transaction and one round trip (libpq's
pipeline mode, a synchronisation point after each), and what is asked next does not wait for it. A connection on which the
oldest statement has no answer for ANSWER_SECONDS, or for twice as long at most, is given up. psycopg logs in, makes
the values of rows and knows the errors; its cursors, pools and tasks take two to three times as long for a statement as
this does, and an idle installation takes all of it for each request.
"""

import asyncio
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

from controlplane.core import database
from controlplane.core.database import ANSWER_SECONDS

Row = tuple[Any, ...]
Pack = Callable[[Any], bytes | None]

_PARAMETER = re.compile(r"%\((\w+)\)s")


class Statement:
    """SQL with parameters as psycopg names them, `%(name)s`, and how each becomes PostgreSQL's binary form.

    Of which type a parameter is the SQL says, best by a cast.
    """

    def __init__(self, name: str, sql: str, **packs: Pack) -> None:
        self.text = sql
        places = {parameter: place for place, parameter in enumerate(packs, start=1)}
        self.name = name.encode()
        self.sql = _PARAMETER.sub(lambda found: f"${places[found[1]]}", sql).replace("%%", "%").encode()
        self._packs = tuple(packs.items())
        self.formats = (Format.BINARY,) * len(packs)

    def packed(self, values: Mapping[str, Any]) -> list[bytes | None]:
        """The parameters in their order; raises KeyError for one that is missing."""
        return [pack(values[name]) for name, pack in self._packs]


Asked = tuple[Statement, Mapping[str, Any]]


class _Pending:
    """What was asked together, and what has come of it so far."""

    __slots__ = ("_done", "_parts", "error", "rows")

    def __init__(
        self, parts: "Sequence[tuple[Statement, Sequence[bytes | None]]]", done: "asyncio.Future[list[Row]]"
    ) -> None:
        self._parts = parts
        self._done = done
        self.rows: list[Row] = []
        self.error: psycopg.Error | None = None

    def put(self, line: PGconn) -> None:
        """Give it to libpq."""
        for statement, params in self._parts:
            line.send_query_prepared(statement.name, params, statement.formats, Format.BINARY)

    def settle(self) -> None:
        """Tell whoever waits, if anybody still does."""
        if self._done.done():
            return
        if self.error is None:
            self._done.set_result(self.rows)
        else:
            self._done.set_exception(self.error)

    def fail(self, error: psycopg.Error) -> None:
        """Fail with an error of its own: whoever raises it adds a traceback to it."""
        self.error = type(error)(*error.args)
        self.settle()


class _Preparing(_Pending):
    """The statements, to be prepared before anything is asked. One that is refused breaks the connection."""

    __slots__ = ("_statements",)

    def __init__(self, statements: Sequence[Statement]) -> None:
        super().__init__((), asyncio.get_running_loop().create_future())
        self._statements = statements

    def put(self, line: PGconn) -> None:
        for statement in self._statements:
            line.send_prepare(statement.name, statement.sql)

    def settle(self) -> None:
        if self.error is not None:
            raise psycopg.OperationalError(f"a statement of this connection is refused: {self.error}")

    def fail(self, error: psycopg.Error) -> None:
        """Nobody waits for it."""


class Line:
    """One connection, opened when it is needed; for one event loop."""

    def __init__(self, database_url: str, *statements: Statement, lost: Callable[[], None] | None = None) -> None:
        """`lost` is called whenever a connection that was open is no more: the next one may be to another database."""
        self._database_url = database_url
        self._statements = statements
        self._lost = lost
        self._connection: AsyncConnection | None = None
        self._transformer = Transformer()  # kept with the connection, since it keeps the loaders of each type
        self._opening: asyncio.Task[None] | None = None
        self._unsent: list[_Pending] = []
        self._sent: deque[_Pending] = deque()
        self._is_flushing = False
        self._socket = -1
        self._is_over: Callable[[], bool] = lambda: False
        self._watch: asyncio.TimerHandle | None = None

    def ask(self, *asked: Asked) -> "asyncio.Future[list[Row]]":
        """The rows of the last of these statements, which are one transaction; or psycopg.Error as the exception.

        Raises KeyError for a parameter that is missing. Nobody has to wait: what was asked is done all the same, also when
        the future is cancelled.
        """
        done: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()
        try:
            pending = _Pending([(statement, statement.packed(values)) for statement, values in asked], done)
        except (ValueError, struct.error) as error:  # no text, or no number of that size
            done.set_exception(psycopg.DataError(str(error)))
            return done
        if self._connection is not None:
            self._send(self._connection.pgconn, pending)
        else:
            self._unsent.append(pending)
            self.open()
        return done

    def open(self) -> None:
        """Begin to open the connection, unless it is open."""
        if self._connection is None and self._opening is None:
            self._opening = asyncio.create_task(self._open())

    async def close(self) -> None:
        """Close the connection; what is under way fails, and may be done all the same."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        closed = psycopg.OperationalError("the connection was closed")
        self._fail_unsent(closed)
        self._lose(closed)

    async def _open(self) -> None:
        try:
            connection = await database.connect(self._database_url)
            line = connection.pgconn
            line.enter_pipeline_mode()
            self._socket = line.socket  # libpq forgets it when the connection breaks
            self._is_over = database.is_over(self._socket)
            asyncio.get_running_loop().add_reader(self._socket, self._read)
        except Exception as error:  # noqa: BLE001 - told to all who asked, who would wait for ever
            self._fail_unsent(psycopg.OperationalError(str(error)))
            return
        finally:
            self._opening = None
        self._connection, self._transformer = connection, Transformer(connection)
        self._look_after(None)
        unsent, self._unsent = self._unsent, []
        for pending in (_Preparing(self._statements), *unsent):
            if self._connection is connection:
                self._send(line, pending)
            else:  # it was lost again
                pending.fail(psycopg.OperationalError("the connection is lost"))

    def _fail_unsent(self, error: psycopg.Error) -> None:
        failed, self._unsent = self._unsent, []
        for pending in failed:
            pending.fail(error)

    def _send(self, line: PGconn, pending: _Pending) -> None:
        self._sent.append(pending)
        try:
            pending.put(line)
            line.pipeline_sync()  # the end of a transaction
            self._push(line)
        except psycopg.Error as error:
            self._lose(psycopg.OperationalError(str(error)))

    def _push(self, line: PGconn) -> None:
        """Send what the socket takes; the rest once it takes more."""
        is_more = bool(line.flush())
        if is_more != self._is_flushing:
            self._is_flushing = is_more
            loop = asyncio.get_running_loop()
            if is_more:
                loop.add_writer(self._socket, self._go_on)
            else:
                loop.remove_writer(self._socket)

    def _go_on(self) -> None:
        if self._connection is not None:
            try:
                self._push(self._connection.pgconn)
            except psycopg.Error as error:
                self._lose(psycopg.OperationalError(str(error)))

    def _read(self) -> None:
        """Take what has arrived; of a connection that is over, all that is left, and the end."""
        if self._connection is None:
            return
        line = self._connection.pgconn
        try:
            self._take_in(line)
            while self._is_over():
                self._take_in(line)
        except psycopg.Error as error:
            self._lose(psycopg.OperationalError(str(error)))

    def _take_in(self, line: PGconn) -> None:
        line.consume_input()
        while self._sent and not line.is_busy():
            result = line.get_result()
            if result is not None:  # None ends the results of a statement
                self._take(result)
            elif line.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")

    def _take(self, result: PGresult) -> None:
        pending, status = self._sent[0], result.status
        if status == ExecStatus.TUPLES_OK:
            self._transformer.set_pgresult(result)
            pending.rows = self._transformer.load_rows(0, result.ntuples, tuple)
            self._transformer.set_pgresult(None)  # or else it would keep what may be megabytes
        elif status == ExecStatus.FATAL_ERROR:
            pending.error = error_from_result(result)
        elif status == ExecStatus.PIPELINE_SYNC:
            self._sent.popleft()
            pending.settle()

    def _look_after(self, oldest: _Pending | None) -> None:
        """Give the connection up if what was its oldest statement a while ago still is."""
        if oldest is not None and self._sent and self._sent[0] is oldest:
            self._lose(psycopg.OperationalError(f"the database gave no answer within {ANSWER_SECONDS:g} s"))
            return
        now_oldest = self._sent[0] if self._sent else None
        self._watch = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._look_after, now_oldest)

    def _lose(self, error: psycopg.Error) -> None:
        """Let go of the connection; the next to ask opens another one."""
        lost, self._connection = self._connection, None
        if self._watch is not None:
            self._watch.cancel()
        if lost is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            if self._is_flushing:
                loop.remove_writer(self._socket)
                self._is_flushing = False
            lost.pgconn.finish()
            if self._lost is not None:
                self._lost()
        for pending in _emptied(self._sent):
            pending.fail(error)


def _emptied(pending: deque[_Pending]) -> Iterator[_Pending]:
    while pending:
        yield pending.popleft()
