"""Fixtures shared by all tests, and the order of the folders."""

import os
from collections.abc import Iterator

import boto3
import pytest
from django.test import TransactionTestCase
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from controlplane.core import clock
from tests.distribution import ByFile, rank
from tests.emptying import emptying
from tests.fakes.clock import FakeClock


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order in which they are to be begun; within a file it is left as it is."""
    items.sort(key=rank)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """boto3's session keeps the keys that it has once found: those of this process's store, or none yet."""
    session = boto3.DEFAULT_SESSION
    keys = session.get_credentials() if session is not None else None
    if keys is not None and keys.access_key != os.environ.get("AWS_ACCESS_KEY_ID"):
        boto3.DEFAULT_SESSION = None


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
