"""Registers `workers` with Django, for its management commands, and its transactions with whatever calls out."""

from django.apps import AppConfig
from django.db import DEFAULT_DB_ALIAS, connections

from controlplane.core import outside


class WorkersConfig(AppConfig):
    name = "workers"
    label = "workers"

    def ready(self) -> None:
        outside.watch("django", is_in_transaction)


def is_in_transaction() -> bool:
    """Whether this thread is inside an `atomic` block of its own: those that test cases wrap around a test do not count,
    as they do not for Django's `durable`.
    """
    return any(not block._from_testcase for block in connections[DEFAULT_DB_ALIAS].atomic_blocks)
