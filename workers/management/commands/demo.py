"""`manage.py demo`: start everything in a data directory of its own, tell the story, stop everything."""

import json
import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from deploy.demo.stage import Stage, StageFailed
from deploy.demo.story import FALLBACK, PREFERRED, Story, StoryFailed


class Command(BaseCommand):
    """Runs the demonstration; exit code 0 when every value in it was right."""

    help = "Watch an endpoint fall back to its next instance type, serve, and scale in."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        data_dir = Path(os.environ.get("HEADRACE_DATA_DIR") or ".headrace").absolute() / "demo"
        capacity = {"HEADRACE_LOCAL_CAPACITY": json.dumps({PREFERRED: 0, FALLBACK: 2})}
        with Stage(data_dir, capacity, self._say) as stage:
            try:
                stage.start()
                self._tell(stage)
            except StageFailed as error:
                raise CommandError(str(error)) from error

    def _tell(self, stage: Stage) -> None:
        def set_capacity(instance_type: str, slots: int) -> None:
            stage.manage("capacity", instance_type, str(slots))

        try:
            Story(stage.url, stage.keys, self._say, set_capacity).tell()
        except StoryFailed as error:
            raise CommandError(f"The demonstration failed: {error}\n{stage.manage('explain', 'demo')}") from error
        self._say("\nWhy all of this happened, as `manage.py explain demo` tells it:\n")
        self._say(stage.manage("explain", "demo"))

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
