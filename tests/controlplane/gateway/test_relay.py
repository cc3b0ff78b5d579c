"""What the front door passes on: to the API, and to the embedded store."""

import http.client
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config

from tests import aws
from tests.controlplane.gateway.site import PATIENCE_SECONDS, Site

MIB = 1024 * 1024


def headers_of(said: dict[str, Any]) -> dict[str, str]:
    """The headers that the API was sent."""
    return dict(said["headers"])


def test_a_request_reaches_the_api_as_it_came(site: Site) -> None:
    answer = site.request("POST", "/?a=1&b=%20", b"{}", {"X-Amz-Target": "SageMaker.ListModels", "Host": "h.example:1"})
    assert (answer.status, answer.headers["x-from-the-api"]) == (200, "yes")
    said = answer.json
    assert (said["method"], said["path"], said["body"]) == ("POST", "/?a=1&b=%20", "{}")
    seen = headers_of(said)
    assert seen["host"] == "h.example:1"
    assert seen["x-amz-target"] == "SageMaker.ListModels"
    assert seen["content-length"] == "2"
    assert seen["headrace-request-id"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_any_method_is_passed_on(site: Site, method: str) -> None:
    assert site.request(method, "/admin/").json["method"] == method


def test_headers_of_one_hop_forged_ones_and_lookalikes_stay_behind(site: Site) -> None:
    sent = {
        "Connection": "X-Secret, keep-alive",
        "X-Secret": "1",
        "Keep-Alive": "timeout=5",
        "TE": "trailers",
        "Proxy-Authorization": "Basic eA==",
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": "host=evil.example",
        "X_Amz_Target": "SageMaker.DeleteModel",
        "Headrace-Request-Id": "forged",
        "X-Kept": "yes",
    }
    said = site.request("POST", "/", b"x", sent).json
    assert {name for name, _ in said["headers"]} == {
        "host",
        "accept-encoding",
        "content-length",
        "x-kept",
        "headrace-request-id",
    }
    assert headers_of(said)["headrace-request-id"] != "forged"


def test_a_chunked_body_goes_on_with_its_length(site: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE_SECONDS)
    connection.request("POST", "/", body=iter([b"ab", b"cd"]), headers={}, encode_chunked=True)
    answer = connection.getresponse().read()
    connection.close()
    assert b'"abcd"' in answer
    assert b'["content-length", "4"]' in answer
    assert b"transfer-encoding" not in answer


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_four_mib_is_refused_before_it_is_read(site: Site, is_chunked: bool) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
        framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {50 * MIB}"
        raw.sendall(f"POST / HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        if is_chunked:
            raw.sendall((b"%x\r\n" % MIB + b"x" * MIB + b"\r\n") * 4 + b"1\r\nx\r\n")
        answer = b""
        while b"RequestEntityTooLargeException" not in answer and (data := raw.recv(65536)):
            answer += data
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"RequestEntityTooLargeException" in answer
    assert b"x-amzn-requestid" in answer.lower()


def test_with_the_api_down_the_answer_is_json_and_says_to_come_back(new_site: Callable[..., Site]) -> None:
    down = new_site(HEADRACE_API_URL="http://127.0.0.1:1")
    answer = down.request("POST", "/", b"{}")
    assert (answer.status, answer.json["__type"]) == (503, "ServiceUnavailable")
    assert answer.headers["x-amzn-requestid"]


@pytest.fixture(scope="module")
def store(site: Site) -> Any:
    """A boto3 client of the store, through the front door, with a bucket."""
    client = aws.client(
        "s3", endpoint_url=site.url, config=Config(retries={"total_max_attempts": 1}, signature_version="s3v4")
    )
    client.create_bucket(Bucket="front-door")
    return client


@pytest.mark.parametrize("size", [0, 1, 9 * MIB])
def test_objects_go_to_the_store_and_come_back(store: Any, size: int) -> None:
    body = os.urandom(size)
    store.put_object(Bucket="front-door", Key=f"a b/{size}?", Body=body)
    assert store.get_object(Bucket="front-door", Key=f"a b/{size}?")["Body"].read() == body
    assert store.head_object(Bucket="front-door", Key=f"a b/{size}?")["ContentLength"] == size


def test_a_multipart_upload_goes_to_the_store(store: Any, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(20 * MIB))
    store.upload_file(str(file), "front-door", "large")
    assert store.get_object(Bucket="front-door", Key="large")["Body"].read() == file.read_bytes()


def test_a_presigned_url_works_and_a_tampered_one_does_not(site: Site, store: Any) -> None:
    store.put_object(Bucket="front-door", Key="shared", Body=b"shared")
    parameters = {"Bucket": "front-door", "Key": "shared"}
    url = store.generate_presigned_url("get_object", Params=parameters)
    path = url.removeprefix(site.url)
    assert site.request("GET", path).body == b"shared"
    assert site.request("GET", path.replace("shared", "other")).status == 403


def test_an_object_that_is_a_page_runs_nothing_where_the_console_is_served(site: Site, store: Any) -> None:
    """A link to one has the console's origin, where an operator's session is worth something."""
    store.put_object(Bucket="front-door", Key="page", Body=b"<script>alert(1)</script>", ContentType="text/html")
    url = store.generate_presigned_url("get_object", Params={"Bucket": "front-door", "Key": "page"})
    answer = site.request("GET", url.removeprefix(site.url))
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_missing_object_is_the_stores_own_answer(store: Any) -> None:
    with pytest.raises(store.exceptions.NoSuchKey):
        store.get_object(Bucket="front-door", Key="nope")
