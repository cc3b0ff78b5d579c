"""Registers `controlplane.observability` with Django."""

from django.apps import AppConfig


class ObservabilityConfig(AppConfig):
    name = "controlplane.observability"
    label = "observability"
