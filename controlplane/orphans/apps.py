"""Registers `controlplane.orphans` with Django."""

from django.apps import AppConfig


class OrphansConfig(AppConfig):
    name = "controlplane.orphans"
    label = "orphans"
