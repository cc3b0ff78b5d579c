"""Asynchronous accepts a second, beside single-row INSERT + COMMIT of the same PostgreSQL by as many connections."""

import http.client
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.perf.measure import interleaved, show
from tests.system.stack import Stack, create_endpoint, delete_endpoint, in_service

BODY = b'{"question": "' + b"x" * 400 + b'"}'
ENDPOINT = "bench-accepts"


def run(stack: Stack) -> None:
    """Measure at 1, 8 and 32 connections. The endpoint has no instance, so that nothing is drained meanwhile."""
    stack.client("s3").create_bucket(Bucket="bench")
    create_endpoint(stack, ENDPOINT, bucket="bench")
    in_service(stack, ENDPOINT)
    changes = [{"VariantName": "main", "DesiredInstanceCount": 0}]
    sagemaker = stack.client("sagemaker")
    sagemaker.update_endpoint_weights_and_capacities(EndpointName=ENDPOINT, DesiredWeightsAndCapacities=changes)
    in_service(stack, ENDPOINT)
    with stack.database() as connection:
        connection.execute("CREATE TABLE bench_row (id uuid PRIMARY KEY, body bytea)")
    for workers in (1, 8, 32):
        rates = interleaved({"raw": lambda: _raw(stack), "accept": lambda: _accept(stack)}, workers)
        show(f"Asynchronous accepts beside raw INSERT+COMMIT, {workers} connection(s)", rates, "accept", "raw")
    with stack.database() as connection:
        connection.execute("TRUNCATE invocations_asyncinvocation, invocations_asyncpayload")
    delete_endpoint(stack, ENDPOINT)


def _raw(stack: Stack) -> Callable[[], int]:
    connection: psycopg.Connection[Any] = stack.database()

    def insert() -> int:
        connection.execute("INSERT INTO bench_row VALUES (%s, %s)", [uuid.uuid4(), BODY])
        return 1

    return insert


def _accept(stack: Stack) -> Callable[[], int]:
    """One keep-alive connection; the request is signed once, so that the client costs little."""
    connection = http.client.HTTPConnection("127.0.0.1", int(stack.port))
    credentials = Credentials(stack.access_key_id, stack.secret_access_key)
    path = f"/endpoints/{ENDPOINT}/async-invocations"
    signer = SigV4Auth(credentials, "sagemaker", "us-east-1")
    request = AWSRequest("POST", stack.url + path, data=BODY, headers={"X-Amzn-SageMaker-Content-Type": "application/json"})
    signer.add_auth(request)
    headers = dict(request.headers)

    def accept() -> int:
        connection.request("POST", path, body=BODY, headers=headers)
        response = connection.getresponse()
        response.read()
        if response.status != http.client.ACCEPTED:
            raise RuntimeError(f"accept answered {response.status}")
        return 1

    return accept
