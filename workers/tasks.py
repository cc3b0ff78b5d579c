"""Tasks: an id in, a loop out."""

from uuid import UUID

from controlplane.core import hints
from workers.app import app
from workers.loop.run import reconcile as run


@app.task(name=hints.RECONCILE)
def reconcile(endpoint_id: str) -> None:
    """Look at one endpoint, if nobody else does."""
    run(UUID(endpoint_id))
