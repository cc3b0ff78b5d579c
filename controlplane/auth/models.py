"""Accounts and their access keys."""

from django.db import models


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


class Installation(models.Model):
    """The one row that names this control plane, so that two of them can share a provider and tell their own apart."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    owner = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_installation")]
