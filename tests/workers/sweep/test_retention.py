"""Retention: what has ended long ago is deleted."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session

from tests.fakes.clock import FakeClock
from workers.sweep import retention

pytestmark = pytest.mark.django_db


def test_sessions_of_operators_are_kept_until_they_end(fake_clock: FakeClock) -> None:
    now = fake_clock.now()
    for key, age in (("ended", timedelta(seconds=1)), ("good", timedelta(hours=-1))):
        Session.objects.create(session_key=key, session_data="", expire_date=now - age)
    retention.sweep(now)
    assert list(Session.objects.values_list("session_key", flat=True)) == ["good"]
