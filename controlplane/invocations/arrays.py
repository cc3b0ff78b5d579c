"""Columns of values as parameters of a statement, already in PostgreSQL's binary form (see `columns`)."""

from typing import NamedTuple

from psycopg import AsyncConnection, pq
from psycopg.adapt import Dumper


class Array(NamedTuple):
    """A column in binary form; the statement's cast says of which type."""

    data: bytes


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Array) -> bytes:
        return obj.data


async def understand(connection: AsyncConnection) -> None:
    """Let a connection take Arrays: what a pool does to each of its connections (`configure`)."""
    connection.adapters.register_dumper(Array, _ArrayDumper)
