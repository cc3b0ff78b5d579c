"""What a transactional test leaves is gone before the next one, and nothing else is."""

import psycopg
import pytest
from django.contrib.auth.models import Group, Permission
from django.db import OperationalError, connection

from controlplane.auth.models import AccessKey, Account
from tests.emptying import Flushed
from tests.fakes.clock import START


@pytest.fixture
def flushed(transactional_db: None) -> Flushed:
    return Flushed()


def test_rows_go_with_what_refers_to_them_and_what_belongs_there_stays(flushed: Flushed) -> None:
    permissions, groups = set(Permission.objects.values_list("pk")), set(Group.objects.values_list("pk"))
    account = Account.objects.create(account_id="1" * 12, created_at=START)
    AccessKey.objects.create(access_key_id="KEY", account=account, secret_encrypted=b"x", created_at=START)
    assert flushed.is_restored()
    assert not Account.objects.exists()
    assert not AccessKey.objects.exists()
    assert set(Permission.objects.values_list("pk")) == permissions
    assert set(Group.objects.values_list("pk")) == groups


def test_references_are_checked_again_afterwards(flushed: Flushed) -> None:
    Account.objects.create(account_id="1" * 12, created_at=START)
    assert flushed.is_restored()
    with connection.cursor() as cursor:
        cursor.execute("SHOW session_replication_role")
        assert cursor.fetchone() == ("origin",)


def test_what_belongs_there_and_was_changed_is_noticed(flushed: Flushed) -> None:
    Group.objects.filter(name=Group.objects.first().name).update(name="renamed")
    assert not flushed.is_restored()


def test_a_transaction_that_was_left_open_is_noticed(flushed: Flushed) -> None:
    other = connection.settings_dict
    with psycopg.connect(
        host=other["HOST"], port=other["PORT"], user=other["USER"], password=other["PASSWORD"], dbname=other["NAME"]
    ) as left_open:
        left_open.execute("INSERT INTO auth_group (name) VALUES ('not yet committed')")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '100ms'")
        with pytest.raises(OperationalError, match="lock timeout"):
            flushed.is_restored()
        left_open.rollback()
    connection.close()
