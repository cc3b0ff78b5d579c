"""`manage.py api_token`: makes, lists and revokes."""

import io
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from controlplane.auth import tokens
from controlplane.auth.models import Account, ApiToken
from controlplane.auth.roles import Role
from controlplane.core.errors import UnrecognizedClient
from tests.fakes.clock import FakeClock

ACCOUNT = "111111111111"

pytestmark = pytest.mark.django_db


def run(*args: str, **options: Any) -> str:
    out = io.StringIO()
    call_command("api_token", *args, account=ACCOUNT, stdout=out, **options)
    return out.getvalue().strip()


def test_the_secret_is_all_that_is_printed_and_the_token_works_until_it_is_revoked(fake_clock: FakeClock) -> None:
    Account.objects.create(account_id=ACCOUNT, created_at=fake_clock.now())
    get_user_model().objects.create_superuser("alice")
    secret = run("ci", role="operator", days=7, user="alice")
    rights = tokens.recognise(secret, fake_clock.now())
    assert (rights.role, rights.token.name, rights.token.user.username) == (Role.OPERATOR, "ci", "alice")
    listed = run("--list")
    assert f"{rights.token.id}  {secret[:10]}...  operator" in listed
    assert secret not in listed
    assert run("--revoke", str(rights.token.id)) == f"Revoked: ci ({secret[:10]}...)"
    with pytest.raises(UnrecognizedClient):
        tokens.recognise(secret, fake_clock.now())
    assert "revoked" in run("--list")


def test_what_makes_no_sense_is_refused_with_a_sentence(fake_clock: FakeClock) -> None:
    with pytest.raises(CommandError, match="no account"):
        run("ci")
    Account.objects.create(account_id=ACCOUNT, created_at=fake_clock.now())
    for args, options, sentence in (
        ((), {}, "Name the token"),
        (("ci",), {"user": "nobody"}, "no operator"),
        (("ci",), {"days": 400}, "1 to 365"),
        (("--revoke", "3a0e4e0a-1f5e-4f7e-8f39-cd7d2d1b86f1"), {}, "no token"),
    ):
        with pytest.raises(CommandError, match=sentence):
            run(*args, **options)
    assert not ApiToken.objects.exists()
