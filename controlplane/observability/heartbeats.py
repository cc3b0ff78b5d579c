"""Heartbeats: which processes make progress, as seen by everybody."""

import os
import socket
from datetime import datetime, timedelta

from controlplane.observability.models import Heartbeat

LIVE_SECONDS = 15.0
"""A process that was not heard of for so long is taken for dead; each beats every second or two."""


def process_id() -> str:
    """Names this process among all hosts."""
    return f"{socket.gethostname()}:{os.getpid()}"[:128]


def beat(role: str, now: datetime) -> None:
    """Say that this process, in this role, makes progress."""
    Heartbeat.objects.update_or_create(role=role, process_id=process_id(), defaults={"seen_at": now})


def live_roles(now: datetime) -> set[str]:
    """The roles in which at least one process is alive."""
    rows = Heartbeat.objects.filter(seen_at__gte=now - timedelta(seconds=LIVE_SECONDS))
    return set(rows.values_list("role", flat=True).distinct())


def forget_dead(now: datetime) -> None:
    """Drop the rows of processes long gone."""
    Heartbeat.objects.filter(seen_at__lt=now - timedelta(hours=1)).delete()
