"""Registers `controlplane.embedded` with Django, for its management commands."""

from django.apps import AppConfig


class EmbeddedConfig(AppConfig):
    name = "controlplane.embedded"
    label = "embedded"
