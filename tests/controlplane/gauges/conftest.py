"""The control plane in one process, as the workers' tests drive it."""

from tests.workers.conftest import plane

__all__ = ["plane"]
