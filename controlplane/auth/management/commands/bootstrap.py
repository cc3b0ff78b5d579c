"""`manage.py bootstrap`: what a fresh database needs before the first request. Safe to run at every start."""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from controlplane.auth.models import AccessKey, Account, Installation
from controlplane.auth.secrets import encrypt
from controlplane.core import clock
from controlplane.core.ids import new_token

ADMIN = "admin"


class Command(BaseCommand):
    """Makes the installation's name, the account, its bootstrap access key and the administrator, where missing."""

    help = "Create the account, the bootstrap access key and the administrator of HEADRACE_* settings, where missing."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        env = settings.HEADRACE
        now = clock.now()
        Installation.objects.get_or_create(id=1, defaults={"owner": new_token(), "created_at": now})
        account, _ = Account.objects.get_or_create(account_id=env.account_id, defaults={"created_at": now})
        if env.access_key_id:
            self._ensure_key(account)
        if env.admin_password:
            self._ensure_admin(env.admin_password)

    def _ensure_key(self, account: Account) -> None:
        env = settings.HEADRACE
        if not env.secret_access_key or not env.secret_key:
            raise CommandError(
                "HEADRACE_ACCESS_KEY_ID needs HEADRACE_SECRET_ACCESS_KEY, and HEADRACE_SECRET_KEY to encrypt it with."
            )
        AccessKey.objects.update_or_create(
            access_key_id=env.access_key_id,
            defaults={
                "account": account,
                "secret_encrypted": encrypt(env.secret_access_key, env.secret_key),
                "is_active": True,
            },
            create_defaults={
                "account": account,
                "secret_encrypted": encrypt(env.secret_access_key, env.secret_key),
                "created_at": clock.now(),
            },
        )

    def _ensure_admin(self, password: str) -> None:
        user, _ = get_user_model().objects.get_or_create(username=ADMIN, defaults={"is_staff": True, "is_superuser": True})
        if not user.check_password(password):
            user.set_password(password)
            user.save(update_fields=["password"])
