"""Registers `controlplane.rest` with Django."""

from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "controlplane.rest"
    label = "rest"
