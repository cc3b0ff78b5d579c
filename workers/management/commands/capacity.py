"""`manage.py capacity TYPE SLOTS`: rehearse a shortage, or its end, on the `local` or `simulated` provider."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.fleet.models import CapacityMark
from workers.providers import registry
from workers.providers.local.provider import LocalProvider
from workers.providers.simulated.provider import SimulatedProvider


class Command(BaseCommand):
    """Sets how many instances of a type may live at once, and forgets what was remembered of its shortage."""

    help = "Set how many instances of a type may live at once (0 = none); running ones are left alone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("instance_type")
        parser.add_argument("slots", type=int)

    def handle(self, *args: Any, instance_type: str, slots: int, **options: Any) -> None:
        provider = registry.get(settings.HEADRACE.provider)
        if isinstance(provider, SimulatedProvider):
            provider.world.set_capacity(instance_type, slots)
        elif isinstance(provider, LocalProvider):
            provider.set_capacity(instance_type, slots)
        else:
            raise CommandError(f"The capacity of provider {provider.name!r} is not Headrace's to set.")
        CapacityMark.objects.filter(provider=provider.name, instance_type=instance_type).delete()
        self.stdout.write(f"{instance_type}: {slots} slot(s) from now on; its capacity mark is cleared.")
