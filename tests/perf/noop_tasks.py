"""Plain Celery: a task that does nothing and one that only keeps a result, what a drained job is compared with.

celery -A tests.perf.noop_tasks worker ...      with HEADRACE_REDIS_URL, on a database of the broker of its own
"""

import os
import socket
from functools import cache
from typing import Any
from uuid import uuid4

from celery import Celery

from tests import aws

QUEUE = "noop"

app = Celery("noop", broker=os.environ.get("HEADRACE_REDIS_URL", "redis://"))
app.conf.update(task_ignore_result=True, task_serializer="json", accept_content=["json"], task_default_queue=QUEUE)


@app.task(name="noop")
def noop(body: str) -> None:
    """Do nothing with what came."""
    del body


@app.task(name="store")
def store(bucket: str) -> None:
    """Keep an object in the store, as whoever returns results by S3 would."""
    _client().put_object(Bucket=bucket, Key=f"celery/{uuid4()}.out", Body=b"{}")


@cache
def _client() -> Any:
    return aws.client("s3", endpoint_url=os.environ["HEADRACE_S3_ENDPOINT_URL"])


@app.task(name="tell")
def tell(port: int) -> None:
    """Tell a port of this host that the task runs."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"here", ("127.0.0.1", port))
