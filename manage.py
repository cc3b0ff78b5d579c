#!/usr/bin/env python3
"""Headrace from the command line: `manage.py up`, `manage.py demo`, `manage.py explain ENDPOINT`, and Django's own."""

import os
import select
import sys

from django.core.management import execute_from_command_line

READER_GONE = 141
"""The exit code: that of a program which SIGPIPE ends (128 + 13)."""


def main() -> None:
    """Run the command named on the command line. Whoever reads its output may stop (`| head`): then it ends quietly."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
    try:
        execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_reader_gone():
            raise
        # What is still in the buffer is written once more at the end of the process, and must then go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_GONE)


def _is_reader_gone() -> bool:
    """Whether it is standard output that broke, and no connection."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in output.poll(0))


if __name__ == "__main__":
    main()
