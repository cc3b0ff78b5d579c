"""Plain Celery with a task that does nothing: what a drained job is compared with.

celery -A tests.perf.noop_tasks worker ...      with HEADRACE_REDIS_URL, on a database of the broker of its own
"""

import os

from celery import Celery

QUEUE = "noop"

app = Celery("noop", broker=os.environ.get("HEADRACE_REDIS_URL", "redis://"))
app.conf.update(task_ignore_result=True, task_serializer="json", accept_content=["json"], task_default_queue=QUEUE)


@app.task(name="noop")
def noop(body: str) -> None:
    """Do nothing with what came."""
    del body
