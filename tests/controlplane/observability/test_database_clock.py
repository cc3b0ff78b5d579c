"""A process of the API goes by the database's time, whatever its host believes."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from django.db.utils import OperationalError

from controlplane.core import clock
from controlplane.core.clock import SystemClock
from controlplane.observability import database_clock
from tests.fakes.clock import WrongClock

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).parents[3]
HOUR = 3600.0
ONCE_STARTED = """
from datetime import timedelta
from controlplane.core.clock import SystemClock
right = SystemClock.now
SystemClock.now = lambda self: right(self) + timedelta(hours=%d)
from controlplane.config import wsgi
from controlplane.core import clock
print(clock.now().isoformat())
"""


def seconds_off(now: datetime) -> float:
    """How far this is from the time of the database, which runs on this host."""
    return abs((now - SystemClock().now()).total_seconds())


@pytest.fixture
def host() -> Iterator[WrongClock]:
    """The clock of the host; what the test makes of this process is undone after it."""
    previous = clock.use(SystemClock())
    yield WrongClock()
    clock.use(previous)
    connection_created.disconnect(dispatch_uid=database_clock.__name__)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_it_knows_the_time_before_the_first_request(host: WrongClock, ahead: float) -> None:
    host.ahead = ahead
    assert seconds_off(host.now()) > HOUR - 5
    database_clock.use(host)
    assert seconds_off(clock.now()) < 60


def test_while_the_database_is_away_it_goes_by_the_hosts_time_and_then_by_the_databases(
    host: WrongClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OperationalError("nobody is there")

    host.ahead = HOUR
    connection.close()
    with monkeypatch.context() as patch:
        patch.setattr(connection, "connect", refuse)
        database_clock.use(host)
        assert seconds_off(clock.now()) > HOUR - 60
    connection.ensure_connection()
    assert seconds_off(clock.now()) < 60


@pytest.mark.parametrize("hours", [2, -2], ids=["ahead", "behind"])
def test_the_processes_of_the_api_do_so(hours: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONCE_STARTED % hours], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert seconds_off(datetime.fromisoformat(done.stdout.strip())) < HOUR
