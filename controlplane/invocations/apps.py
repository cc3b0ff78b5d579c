"""Registers `controlplane.invocations` with Django."""

from django.apps import AppConfig


class InvocationsConfig(AppConfig):
    name = "controlplane.invocations"
    label = "invocations"
