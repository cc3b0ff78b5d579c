#!/usr/bin/env python3
"""Headrace from the command line: `manage.py up`, `manage.py demo`, `manage.py explain ENDPOINT`, and Django's own."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    """Run the command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
