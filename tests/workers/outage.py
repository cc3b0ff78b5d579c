"""Taking the test's database away from it, as a crash or a cut network does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from psycopg import sql

_CUT = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


def cut_connections() -> None:
    """End every connection to the test's database; another one can be made at once."""
    with psycopg.connect(settings.HEADRACE.database_url, autocommit=True) as beside:
        beside.execute(_CUT, [connection.settings_dict["NAME"]])


@contextmanager
def cut_after(beginning: str) -> Iterator[None]:
    """The connection is lost with the answer to the first statement that begins like this."""
    cut = []

    def execute(run: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        result = run(sql, *arguments)
        if not cut and sql.startswith(beginning):
            cut.append(sql)
            cut_connections()
        return result

    with connection.execute_wrapper(execute):
        yield
    assert cut


@contextmanager
def database_away() -> Iterator[Callable[[], None]]:
    """No connection to the test's database is there or can be made, until what is yielded is called, or the end."""
    with psycopg.connect(settings.HEADRACE.database_url, autocommit=True) as beside:
        name = sql.Identifier(connection.settings_dict["NAME"])

        def back() -> None:
            beside.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))

        beside.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        try:
            beside.execute(_CUT, [connection.settings_dict["NAME"]])
            yield back
        finally:
            back()
