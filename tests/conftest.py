"""Fixtures shared by all tests, and the order of the folders."""

from collections.abc import Iterator

import pytest
from django.test import TransactionTestCase
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from controlplane.core import clock
from tests import evidence
from tests.distribution import ByFile, rank
from tests.emptying import emptying
from tests.fakes.clock import FakeClock


def pytest_configure(config: pytest.Config) -> None:
    """Reports of failed tests say what the Headraces had to say that ran; no property fails since the machine is slow."""
    config.pluginmanager.register(evidence)
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order in which they are to be begun; within a file it is left as it is."""
    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """What hands the tests out when several processes run them."""
    return ByFile(config, log)


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """Time stands still until the test moves it."""
    fake = FakeClock()
    previous = clock.use(fake)
    yield fake
    clock.use(previous)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Django's database for tests, emptied at less cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", emptying())
        yield
