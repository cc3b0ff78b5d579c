"""The load client knows where an answer ends, however it is cut into pieces, and times what a real server takes."""

import subprocess
import sys

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from controlplane.embedded.store import accepts
from tests.controlplane.routing.peers import free_port
from tests.perf import canned_model
from tests.perf.caller import Answer, Failed, call, percentile, unpacked
from tests.perf.pump import packed
from tests.perf.routed_peers import direct
from tests.perf.site import REPOSITORY, wait_for

WHOLE = canned_model.COMPLETION
STREAM = canned_model.STREAM_HEAD + canned_model.EVENT * 3 + canned_model.LAST


@given(st.sampled_from([WHOLE, STREAM]), st.lists(st.integers(1, 600), max_size=20))
def test_an_answer_is_whole_with_its_last_byte_and_not_before(data: bytes, sizes: list[int]) -> None:
    answer, at = Answer(), 0
    for size in sizes:
        piece = data[at : min(at + size, len(data) - 1)]
        at += len(piece)
        assert not answer.take(piece)
        assert answer.has_body == (at > data.index(b"\r\n\r\n") + 4)
    assert answer.take(data[at:])
    assert answer.has_body


@pytest.mark.parametrize("head", [b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_refusal_or_an_answer_without_an_end_is_no_call_that_counts(head: bytes) -> None:
    with pytest.raises(Failed):
        Answer().take(head)


@given(st.lists(st.binary(max_size=50)))
def test_requests_come_out_of_their_file_as_they_went_in(messages: list[bytes]) -> None:
    assert list(unpacked(packed(messages))) == messages


def test_a_percentile_is_one_of_the_values() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.5, 0.99)] == [1.0, 3.0, 4.0]


@pytest.mark.parametrize("is_stream", [False, True])
def test_calls_to_a_real_server_are_counted_and_timed(is_stream: bool) -> None:
    port = free_port()
    command = [sys.executable, "-m", "tests.perf.canned_model", str(port)]
    with subprocess.Popen(command, cwd=REPOSITORY) as server:
        try:
            wait_for(lambda: accepts(port))
            found = uvloop.run(call(port, direct(port).messages(is_stream=is_stream), 2, 0.3))
        finally:
            server.kill()
    assert found["done"] >= 2
    assert 0 < found["first_p50"] <= found["p50"]
    if is_stream:
        pause = 1000 * canned_model.PACE_SECONDS * (canned_model.EVENTS - 1)
        assert found["first_p50"] < pause < found["p50"]
