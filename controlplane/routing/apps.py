"""Registers `controlplane.routing` with Django."""

from django.apps import AppConfig


class RoutingConfig(AppConfig):
    name = "controlplane.routing"
    label = "routing"
