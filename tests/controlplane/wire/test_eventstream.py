"""Frames as botocore's own decoder reads them."""

import json
import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer, EventStreamMessage
from hypothesis import given
from hypothesis import strategies as st

from controlplane.wire import eventstream

NAMES = st.text(min_size=1, max_size=60)
VALUES = st.text(max_size=2000)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=8)


def decoded(data: bytes, step: int = 0) -> list[EventStreamMessage]:
    """The messages that botocore finds in `data`, handed to it in pieces of `step` bytes."""
    buffer = EventStreamBuffer()
    found: list[EventStreamMessage] = []
    for start in range(0, len(data), step or len(data) or 1):
        buffer.add_data(data[start : start + (step or len(data))])
        found += list(buffer)
    return found


@given(headers=HEADERS, payload=st.binary(max_size=5000), step=st.integers(1, 400))
def test_a_message_is_read_back_as_it_was_written(headers: dict[str, str], payload: bytes, step: int) -> None:
    data = eventstream.message(tuple(headers.items()), payload)
    (read,) = decoded(data, step)
    assert (read.headers, read.payload) == (headers, payload)


@given(pieces=st.lists(st.binary(max_size=3000), max_size=6))
def test_the_pieces_of_a_body_add_up_to_it(pieces: list[bytes]) -> None:
    data = b"".join(part for piece in pieces for part in eventstream.parts(piece))
    messages = decoded(data, 1000)
    assert b"".join(each.payload for each in messages) == b"".join(pieces)
    assert all(each.headers[":event-type"] == "PayloadPart" for each in messages)
    assert all(each.headers[":message-type"] == "event" for each in messages)


def test_an_empty_piece_is_no_message() -> None:
    assert list(eventstream.parts(b"")) == []


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_piece_of_more_than_the_limit_is_cut(beyond: int) -> None:
    piece = bytes(eventstream.PART_BYTES + beyond)
    sizes = [len(each.payload) for each in decoded(b"".join(eventstream.parts(piece)))]
    assert sizes == [eventstream.PART_BYTES, beyond][: 1 + beyond]


def test_a_failure_names_its_kind_and_carries_its_members() -> None:
    data = eventstream.failure("ModelStreamError", {"Message": "broken", "ErrorCode": "StreamBroken"})
    (read,) = decoded(data)
    assert read.headers[":message-type"] == "exception"
    assert read.headers[":exception-type"] == "ModelStreamError"
    assert json.loads(read.payload) == {"Message": "broken", "ErrorCode": "StreamBroken"}


def test_the_layout_is_the_documented_one() -> None:
    data = eventstream.message((("a", "bc"),), b"xyz")
    block = b"\x01a\x07\x00\x02bc"
    head = struct.pack(">II", 16 + len(block) + 3, len(block))
    before = head + struct.pack(">I", crc32(head)) + block + b"xyz"
    assert data == before + struct.pack(">I", crc32(before))
