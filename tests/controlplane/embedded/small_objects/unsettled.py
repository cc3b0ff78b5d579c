"""The embedded store, whose log keeps all that was put: for a process that is killed."""

from starlette.types import ASGIApp

from controlplane.embedded import nanio_files
from controlplane.embedded.small_objects import keeper


def app() -> ASGIApp:
    """The application, as its server makes it."""
    keeper.SETTLE_SECONDS = 3600.0
    return nanio_files.app()
