"""Commands that tell what others have written: models, providers, callers."""

from django.core.management.base import BaseCommand

from controlplane.core.one_line import one_line


class LineCommand(BaseCommand):
    """A command whose output is lines, whatever is in them."""

    def say(self, line: str = "") -> None:
        """Print one line; what would steer the terminal is shown as what it is."""
        self.stdout.write(one_line(line))
