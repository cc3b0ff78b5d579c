"""Plain Celery with a task that does nothing: what a drained job is compared with.

celery -A tests.perf.noop_tasks worker ...      with HEADRACE_REDIS_URL, on a database of the broker of its own
"""

import os
import socket

from celery import Celery

QUEUE = "noop"

app = Celery("noop", broker=os.environ.get("HEADRACE_REDIS_URL", "redis://"))
app.conf.update(task_ignore_result=True, task_serializer="json", accept_content=["json"], task_default_queue=QUEUE)


@app.task(name="noop")
def noop(body: str) -> None:
    """Do nothing with what came."""
    del body


@app.task(name="tell")
def tell(port: int) -> None:
    """Tell a port of this host that the task runs."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"here", ("127.0.0.1", port))
