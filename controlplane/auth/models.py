"""Accounts, their access keys, and the tokens of their people and programs."""

from django.conf import settings
from django.db import models

from controlplane.auth.roles import Role


class Account(models.Model):
    """A tenant: every resource belongs to exactly one, and none sees another's."""

    account_id = models.CharField(max_length=12, primary_key=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.account_id


class AccessKey(models.Model):
    """A key pair that signs requests (Signature Version 4).

    The secret is encrypted at rest (`auth.secrets`); checking a signature needs it in clear, in memory only.
    """

    access_key_id = models.CharField(max_length=128, primary_key=True)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="access_keys")
    secret_encrypted = models.TextField()
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.access_key_id


class ApiToken(models.Model):
    """A token that speaks for an account on the resource paths, with the rights of its role (`auth.tokens`).

    Only the SHA-256 `digest` of its secret is kept; `prefix` is the secret's beginning, by which people recognise it. One
    that belongs to a `user` has that user's rights at most, and ends with them. `last_used_at` is exact to the minute.
    """

    id = models.UUIDField(primary_key=True)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="api_tokens")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    name = models.CharField(max_length=63)
    role = models.PositiveSmallIntegerField(choices=[(role.value, role.group) for role in Role])
    digest = models.CharField(max_length=64, unique=True)
    prefix = models.CharField(max_length=16)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=160)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["account", "created_at", "id"], name="api_token_by_account")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"


class Installation(models.Model):
    """The one row that names this control plane, so that two of them can share a provider and tell their own apart."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    owner = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_installation")]
