"""Binary arrays, by what PostgreSQL itself reads in them."""

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq
from psycopg.adapt import Dumper

from controlplane.invocations import columns

TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=50)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
DOCUMENTS = st.dictionaries(TEXTS, st.integers(-(2**53), 2**53) | st.booleans() | TEXTS, max_size=3)


class Packed(bytes):
    """An array in binary form."""


class PackedDumper(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Packed) -> bytes:
        return bytes(obj)


@pytest.fixture(scope="module")
def server() -> Iterator["psycopg.Connection[Any]"]:
    """The server that reads."""
    with psycopg.connect(os.environ["HEADRACE_DATABASE_URL"], autocommit=True) as connection:
        connection.adapters.register_dumper(Packed, PackedDumper)
        yield connection


def read(server: "psycopg.Connection[Any]", packed: bytes, type_name: str) -> list[Any]:
    row = server.execute(f"SELECT %s::{type_name}[]", [Packed(packed)]).fetchone()
    assert row is not None
    return list(row[0])


@given(values=st.lists(TEXTS, max_size=8))
def test_texts_arrive_as_they_were(server: "psycopg.Connection[Any]", values: Sequence[str]) -> None:
    assert read(server, columns.texts(values), "varchar") == values


@given(values=st.lists(st.binary(max_size=300), max_size=8))
def test_bytes_arrive_as_they_were(server: "psycopg.Connection[Any]", values: Sequence[bytes]) -> None:
    assert [bytes(value) for value in read(server, columns.blobs(values), "bytea")] == values


@given(values=st.lists(MOMENTS, max_size=8))
def test_moments_arrive_to_the_microsecond(server: "psycopg.Connection[Any]", values: Sequence[datetime]) -> None:
    assert read(server, columns.times(values), "timestamptz") == values


@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=8))
def test_integers_arrive_as_they_were(server: "psycopg.Connection[Any]", values: Sequence[int]) -> None:
    assert read(server, columns.integers(values), "int") == values


@given(values=st.lists(DOCUMENTS, max_size=4))
def test_documents_arrive_as_they_were(server: "psycopg.Connection[Any]", values: Sequence[Any]) -> None:
    assert read(server, columns.documents([json.dumps(value) for value in values]), "jsonb") == values


def test_identifiers_arrive_as_they_were(server: "psycopg.Connection[Any]") -> None:
    values = [uuid4() for _ in range(5)]
    assert read(server, columns.uuids(values), "uuid") == values


def test_identifiers_that_are_written_out_arrive_as_they_were(server: "psycopg.Connection[Any]") -> None:
    values = [uuid4() for _ in range(5)]
    assert read(server, columns.written_uuids([str(value) for value in values]), "uuid") == values


def test_what_is_no_identifier_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        columns.written_uuid("no-uuid")


@given(value=TEXTS, count=st.integers(1, 20), last=TEXTS)
def test_a_column_of_the_same_text_throughout_arrives_as_it_was(
    server: "psycopg.Connection[Any]", value: str, count: int, last: str
) -> None:
    for values in ([value] * count, [value] * count + [last]):
        assert read(server, columns.texts(values), "varchar") == values


def test_a_text_that_no_database_keeps_is_refused_by_the_server(server: "psycopg.Connection[Any]") -> None:
    with pytest.raises(psycopg.DataError):
        read(server, columns.texts(["no\x00"]), "varchar")
