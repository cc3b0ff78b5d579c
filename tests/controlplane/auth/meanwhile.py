"""Two changes of which the second is asked for while the first is not committed yet."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection, transaction

from controlplane.core import clock


def is_refused_meanwhile(first: Callable[[], object], second: Callable[[], object], refusal: type[Exception]) -> bool:
    """Whether `second`, on another connection, heeds what `first` does: it waits for that, and is then refused."""

    def is_refused() -> bool:
        try:
            second()
        except refusal:
            return True
        finally:
            connection.close()
        return False

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first()
            asked = pool.submit(is_refused)
            _until(lambda: asked.done() or _somebody_waits())
        return asked.result(timeout=30)


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


def _until(is_so: Callable[[], bool]) -> None:
    deadline, pause = clock.SystemClock().monotonic() + 30, threading.Event()
    while not is_so():
        assert clock.SystemClock().monotonic() < deadline
        pause.wait(0.01)
