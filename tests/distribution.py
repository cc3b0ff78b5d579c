"""Which tests the processes of a parallel run take, and in which order."""

from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

HERE = Path(__file__).parent

LONGEST_FIRST = ("chaos", "crash", "faults", "browser", "clients", "system", "contract", "deploy", "workers")
"""Folders of files that take minutes. Begun last, one of them would keep one process busy while the others have nothing
left to do."""

TOGETHER = ("browser", "clients")
"""Folders that one process takes whole: a few files that share running Headraces, which take longest to start."""


def folder(path: str) -> str:
    """`system`, of `tests/system/test_clients.py`."""
    return (path.removeprefix(f"{HERE.name}/")).partition("/")[0]


def rank(item: pytest.Item) -> int:
    """The place of the test's folder; those that are not named come last."""
    name = folder(item.nodeid)
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)


def unit(nodeid: str) -> str:
    """What one process takes as a whole: the test's folder, or its file."""
    path = nodeid.partition("::")[0]
    return folder(path) if folder(path) in TOGETHER else path


class ByFile(LoadScopeScheduling):
    """Hands out files, or whole folders, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
