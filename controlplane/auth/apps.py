"""Registers `controlplane.auth` with Django."""

from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "controlplane.auth"
    label = "identity"
