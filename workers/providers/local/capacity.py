"""How many instances of a type may live on this host at once.

What the operator set last (`capacity.json`, changed while everything runs) wins over HEADRACE_LOCAL_CAPACITY (a JSON
object type -> slots). Where neither says anything at all every type has DEFAULT_SLOTS; once the variable names types,
the others have none.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from workers.providers.local.processes import host_lock
from workers.providers.slots import check_slots, read_slots

DEFAULT_SLOTS = 4
SETTING = "HEADRACE_LOCAL_CAPACITY"


def read_default(env: Mapping[str, str]) -> dict[str, int] | None:
    """The setting's slots by type, None when it is unset; raises ValueError for anything but whole numbers >= 0."""
    text = env.get(SETTING, "")
    return read_slots(text, SETTING) if text else None


def get_capacity(data_dir: Path, instance_type: str, default: Mapping[str, int] | None) -> int:
    """The slots of this type now; raises ValueError when `capacity.json` was edited into nonsense."""
    chosen = _chosen(data_dir)
    if instance_type in chosen:
        return chosen[instance_type]
    return DEFAULT_SLOTS if default is None else default.get(instance_type, 0)


def named_types(data_dir: Path, default: Mapping[str, int] | None) -> set[str]:
    """The types whose slots somebody has set."""
    return set(_chosen(data_dir)) | set(default or {})


def set_capacity(data_dir: Path, instance_type: str, slots: int) -> None:
    """Rehearse a shortage or its end; instances that live already are left alone. Raises ValueError below 0."""
    changed = check_slots({instance_type: slots}, "the capacity")
    with host_lock(data_dir):
        path = _file(data_dir)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({**_chosen(data_dir), **changed}))
        temporary.replace(path)


def _file(data_dir: Path) -> Path:
    return data_dir / "local" / "capacity.json"


def _chosen(data_dir: Path) -> dict[str, int]:
    try:
        text = _file(data_dir).read_text()
    except FileNotFoundError:
        return {}
    return read_slots(text, "capacity.json")
