"""The one list of providers."""

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from workers.providers.base import Provider
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.local.provider import LocalProvider
from workers.providers.simulated.provider import SimulatedProvider

Factory = Callable[[Path, Mapping[str, str]], Provider]

PROVIDERS: dict[str, Factory] = {
    "ec2": Ec2Provider,
    "local": LocalProvider,
    "simulated": SimulatedProvider.stored,
}


@lru_cache(maxsize=8)
def get(name: str) -> Provider:
    """This process's provider of that name; raises KeyError with the names there are."""
    if name not in PROVIDERS:
        raise KeyError(f"HEADRACE_PROVIDER must be one of {', '.join(PROVIDERS)}, not {name!r}.")
    data_dir = Path(os.environ.get("HEADRACE_DATA_DIR") or ".headrace").absolute()
    return PROVIDERS[name](data_dir, os.environ)
