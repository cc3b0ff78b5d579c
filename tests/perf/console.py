"""`python -m tests.perf.console [ENDPOINTS [REQUESTS]]`: time and queries of every page and of the main lists of the API.

On engines of its own, with 10,000 endpoints and 1,000,000 asynchronous requests unless told otherwise.
"""

import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from django.core.management import call_command

from controlplane.embedded import engines
from tests.perf.planning import configure

ENDPOINTS, REQUESTS = 10_000, 1_000_000


def main(arguments: list[str]) -> None:
    """Start the engines, fill the database, measure, stop."""
    endpoints, requests = (*map(int, arguments), *(ENDPOINTS, REQUESTS)[len(arguments) :])
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-console-"))
    data_dir.chmod(0o755)
    try:
        with engines.running(data_dir, {}) as started:
            configure(data_dir, started)
            call_command("migrate", verbosity=0)
            # Models can be imported only now that Django is set up.
            import_module("tests.perf.console_pages").run(endpoints, requests)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
