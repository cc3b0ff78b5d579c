"""Heartbeats: which processes make progress, as seen by everybody."""

import os
import socket
from datetime import datetime, timedelta

from django.db import connection

from controlplane.observability.models import Heartbeat


def process_id() -> str:
    """Names this process among all hosts."""
    return f"{socket.gethostname()}:{os.getpid()}"[:128]


def beat(role: str, now: datetime) -> None:
    """Say that this process, in this role, makes progress."""
    Heartbeat.objects.update_or_create(role=role, process_id=process_id(), defaults={"seen_at": now})


def database_time() -> datetime:
    """What time it is by the database's clock, by which hosts whose own clocks differ can judge the same rows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
    return now


def forget_dead(now: datetime) -> None:
    """Drop the rows of processes long gone."""
    Heartbeat.objects.filter(seen_at__lt=now - timedelta(hours=1)).delete()
