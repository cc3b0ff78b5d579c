"""Requests that an SDK would refuse or repair: signed by botocore, then sent byte for byte."""

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.contract import openapi
from tests.system.stack import Stack

JSON_1_1 = "application/x-amz-json-1.1"


@dataclass(frozen=True)
class Answer:
    """What came back; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document

    @property
    def code(self) -> str:
        """The error's code, which header and body must agree on."""
        assert self.document["__type"] == self.headers["x-amzn-errortype"]
        return self.headers["x-amzn-errortype"]


def signed(stack: Stack, method: str, path: str, headers: dict[str, str], body: bytes, **scope: str) -> dict[str, str]:
    """The headers with a signature over all of them; `scope` changes key, secret, service or region."""
    request = AWSRequest(method=method, url=stack.url + path, data=body, headers=dict(headers))
    credentials = Credentials(scope.get("key", stack.access_key_id), scope.get("secret", stack.secret_access_key))
    SigV4Auth(credentials, scope.get("service", "sagemaker"), scope.get("region", "us-east-1")).add_auth(request)
    return dict(request.headers)


def send(stack: Stack, method: str, path: str, headers: dict[str, str], body: bytes, timeout: float = 60) -> Answer:
    """Send exactly this, with the length of `body`."""
    connection = http.client.HTTPConnection("127.0.0.1", int(stack.port), timeout=timeout)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())
    finally:
        connection.close()


def call(stack: Stack, operation: str, body: object) -> Answer:
    """One operation of the control plane; a body that is not bytes is made JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": JSON_1_1, "X-Amz-Target": f"SageMaker.{operation}"}
    return send(stack, "POST", "/", signed(stack, "POST", "/", headers, content), content)


def invoke(stack: Stack, name: str, body: bytes, mode: str, **headers: str) -> Answer:
    """One InvokeEndpoint with a mode of the reference container; underscores in header names stand for hyphens."""
    path = f"/endpoints/{name}/invocations"
    given = {header.replace("_", "-"): value for header, value in headers.items()}
    wanted = {"X-Amzn-SageMaker-Custom-Attributes": f"mode={mode}", **given}
    return send(stack, "POST", path, signed(stack, "POST", path, wanted, body), body, timeout=90)


def connection(stack: Stack, data: bytes) -> socket.socket:
    """A connection on which `data` was sent."""
    opened = socket.create_connection(("127.0.0.1", int(stack.port)), timeout=60)
    opened.sendall(data)
    return opened


def exchange(stack: Stack, data: bytes) -> bytes:
    """Everything that comes back before the server closes."""
    with connection(stack, data) as opened:
        parts = []
        while part := opened.recv(65536):
            parts.append(part)
        return b"".join(parts)


def open_invocation(stack: Stack, name: str, body: bytes, mode: str) -> socket.socket:
    """A connection on which a whole InvokeEndpoint was sent and nothing was read yet."""
    path = f"/endpoints/{name}/invocations"
    headers = signed(stack, "POST", path, {"X-Amzn-SageMaker-Custom-Attributes": f"mode={mode}"}, body)
    headers["Content-Length"] = str(len(body))
    headers["Host"] = f"127.0.0.1:{stack.port}"
    lines = "".join(f"{header}: {value}\r\n" for header, value in headers.items())
    return connection(stack, f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)


def ask(stack: Stack, method: str, path: str, body: object = None) -> Answer:
    """One signed request for a resource, whose answer must be one that the document describes."""
    content = b"" if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if content else {}
    answer = send(stack, method, path, signed(stack, method, path, headers, content), content)
    if stack.judge is not None:
        stack.judge.check(method, path, openapi.Answer(answer.status, answer.headers, answer.body))
    return answer
