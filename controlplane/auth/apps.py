"""Registers `controlplane.auth` with Django."""

from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate

from controlplane.auth.roles import Role


class IdentityConfig(AppConfig):
    name = "controlplane.auth"
    label = "identity"

    def ready(self) -> None:
        post_migrate.connect(make_groups, sender=self, dispatch_uid="identity.groups")


def make_groups(using: str, **_: Any) -> None:
    """One Django group for each role, so that the console's users can be given one."""
    group = apps.get_model("auth", "Group")
    for role in Role:
        group.objects.using(using).get_or_create(name=role.group)
