"""Nothing is asked of another system while a transaction is open."""

import pytest
from django.db import transaction

from controlplane.core.hints import RECONCILE, Doorbell
from controlplane.core.ids import new_uuid
from controlplane.core.outside import CalledInsideTransaction, must_be_outside
from controlplane.invocations import outputs


def test_outside_a_transaction_anything_may_be_asked() -> None:
    must_be_outside("a call")


@pytest.mark.django_db
def test_the_transaction_that_wraps_a_test_does_not_count() -> None:
    must_be_outside("a call")


@pytest.mark.django_db
def test_inside_a_transaction_nothing_may_be_asked_and_the_fault_names_the_call() -> None:
    with transaction.atomic(), pytest.raises(CalledInsideTransaction, match="a call was called inside a transaction"):
        must_be_outside("a call")
    must_be_outside("a call")


@pytest.mark.django_db
def test_an_inner_block_is_inside_as_well() -> None:
    with transaction.atomic(), transaction.atomic(), pytest.raises(CalledInsideTransaction):
        must_be_outside("a call")


@pytest.mark.django_db(transaction=True)
def test_what_was_put_off_until_after_the_commit_may_ask() -> None:
    asked: list[str] = []
    with transaction.atomic():
        transaction.on_commit(lambda: (must_be_outside("a call"), asked.append("asked")))
    assert asked == ["asked"]


@pytest.mark.django_db
def test_neither_the_store_nor_the_broker_is_asked_inside_a_transaction() -> None:
    # Nobody listens at either: were they asked, another error would tell.
    with transaction.atomic(), pytest.raises(CalledInsideTransaction):
        outputs.read("http://127.0.0.1:1", "us-east-1", "s3://bucket/key", new_uuid())
    with transaction.atomic(), pytest.raises(CalledInsideTransaction):
        Doorbell("redis://127.0.0.1:1/0").ring(RECONCILE, new_uuid())
