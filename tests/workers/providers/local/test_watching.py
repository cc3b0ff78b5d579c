"""What others see of an instance while it is being launched."""

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.clock import START
from workers.providers.base import InstanceStatus
from workers.providers.local import locks
from workers.providers.local.processes import Directory
from workers.providers.local.provider import _instance

SPEC = {"token": "t", "owner": "o", "instance_type": "ml.m5.large", "zone": "local", "launched_at": START.isoformat()}


@dataclass(frozen=True)
class LockedWhileRead(Directory):
    """A directory whose shim takes its lock at the moment in which somebody reads what was asked for."""

    shim: ExitStack = field(default_factory=ExitStack)

    @property
    def spec(self) -> dict[str, Any] | None:
        self.shim.enter_context(locks.held(self.lock, 1.0))
        return super().spec


def test_an_instance_that_starts_while_it_is_looked_at_does_not_look_dead(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    directory = LockedWhileRead(tmp_path)
    with directory.shim:
        seen = _instance(directory)
    assert seen is not None
    assert (seen.status, seen.failure) == (InstanceStatus.PENDING, None)
