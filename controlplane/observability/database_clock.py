"""Going by the database's time of day in a process that serves requests.

What a request wishes for is stored with times (since when, until when it is tried, when to look again) that the workers
judge by the database's clock. A host whose own clock is behind would have endpoints given up as they are created, and one
that is ahead would have them wait. Signatures are judged by the same time: one clock in one process.
"""

import logging
from typing import Any

from django.db import Error, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from controlplane.core import clock

log = logging.getLogger(__name__)


def use(host: clock.Clock | None = None) -> None:
    """Go by the database's time from now on, carried on by the clock of the host.

    The database is asked at once, and with every new connection after that: connections of the API live for a minute
    (`CONN_MAX_AGE`). While it is away the time is carried on; until it has been asked for once, it is the host's.
    """
    clock.use(clock.CarriedClock(host))
    connection_created.connect(_ask, dispatch_uid=__name__)
    try:
        _ask(connection)
    except Error as error:
        log.warning("The database was not asked what time it is: %s", error)
    finally:
        connection.close()


def _ask(connection: BaseDatabaseWrapper, **_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
    clock.told(now)
