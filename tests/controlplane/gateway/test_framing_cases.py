"""Public failures of other servers, replayed at the port: requests framed so that two readers may see different ones."""

import pytest

from tests.controlplane.gateway.site import Site
from tests.controlplane.gateway.test_asynchronous import PATH, count
from tests.controlplane.gateway.test_front_door import talk

CHUNKED = b"Transfer-Encoding: chunked\r\n"
START = b"POST / HTTP/1.1\r\nHost: x\r\n"
NEXT = b"GET /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"Content-Length: 5, 5\r\n\r\nhello",
        b"Content-Length: 0x5\r\n\r\nhello",
        b"Content-Length:\r\n\r\nhello",
        b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"\r\n1 \r\nx\r\n0\r\n\r\n",
        CHUNKED + b"\r\n0x1\r\nx\r\n0\r\n\r\n",
        CHUNKED + b"\r\n-1\r\nx\r\n0\r\n\r\n",
        CHUNKED + b"\r\nfffffffffffffffff\r\nx\r\n0\r\n\r\n",
        CHUNKED + b"\r\n1\nx\n0\n\n",
        CHUNKED + b"\r\n1;" + b"e" * 1_000_000 + b"\r\nx\r\n0\r\n\r\n",
        CHUNKED + b"\r\n0\r\nx-trailer: " + b"t" * 1_000_000 + b"\r\n\r\n",
        CHUNKED + b"\r\n0\r\n" + b"x-trailer: t\r\n" * 100_000 + b"\r\n",
        b"Content-Length: 0\n\n",
        b"X-A: b\nContent-Length: 0\r\n\r\n",
        b"X-A: b\rX-B: c\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=range(21),
)
def test_what_is_ambiguous_or_endless_is_refused_and_nothing_behind_it_is_read(site: Site, rest: bytes) -> None:
    answer = talk(site, START + rest + NEXT)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))  # b"": it was still sending
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b"smuggled" not in answer
    after = site.request("POST", "/", b"mine")
    assert (after.status, after.json["path"], after.json["body"]) == (200, "/", "mine")


@pytest.mark.parametrize(
    "rest",
    [
        CHUNKED + b"\r\n3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: t\r\n\r\n",
        b"Transfer-Encoding:\tChunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
        b"Content-Length: 5\r\n\r\nabcde",
    ],
    ids=["extensions and trailers", "odd spelling", "length"],
)
def test_what_is_good_is_passed_on_in_one_framing_and_what_follows_is_the_next(site: Site, rest: bytes) -> None:
    first, second = [part.partition(b"\r\n\r\n")[2] for part in talk(site, START + rest + NEXT).split(b"HTTP/1.1 200")[1:]]
    assert b'"body": "abcde"' in first
    assert b"x-trailer" not in first
    assert first.count(b'"transfer-encoding"') + first.count(b'"content-length"') == 1
    assert b'"path": "/smuggled"' in second


def test_a_request_within_a_body_is_a_body(site: Site) -> None:
    """Signed by a good key, it would be taken: if it were read as a request, which it is not."""
    site.publish("later", failure_path="")
    inner = site.raw(PATH, b"inner")
    before = count(site)
    assert site.post(PATH, inner).status == 202
    assert count(site) - before == 1
    ambiguous = site.raw(PATH, inner, "Transfer-Encoding: chunked\r\n", length=0)
    assert talk(site, ambiguous).count(b"HTTP/1.1 400 ") == 1
    assert count(site) - before == 1


@pytest.mark.parametrize("header", ["X-Amz-Date", "Host"])
def test_a_header_of_the_signature_that_comes_twice_opens_nothing(site: Site, header: str) -> None:
    site.publish("later", failure_path="")
    before, good = count(site), site.raw(PATH, b"x", "Connection: close\r\n")
    start, rest = good.split(b"\r\n", 1)
    twice = f"{header}: other\r\n".encode()
    for raw in (b"%b\r\n%b%b" % (start, twice, rest), good.replace(b"Connection:", twice + b"Connection:")):
        answer = talk(site, raw)
        assert answer[9:12] in (b"400", b"403"), answer
    assert count(site) == before
