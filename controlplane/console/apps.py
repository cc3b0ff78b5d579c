"""Registers `controlplane.console` with Django, and its site as the one that Django's admin uses."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin


class ConsoleConfig(AppConfig):
    name = "controlplane.console"
    label = "console"
    verbose_name = "Administration"
    default = True


class ConsoleAdminConfig(admin.AdminConfig):
    """`django.contrib.admin`, with `site.ConsoleSite` where Django would put its own."""

    default = False
    default_site = "controlplane.console.site.ConsoleSite"
