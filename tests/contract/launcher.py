"""`python -m tests.contract.launcher PROVIDER DATA_DIR TOKENS [ENV]`: a process that launches, and prints what came of it.

ENV is JSON: what the provider is made with; without it, what a provider is given when nothing is set.
"""

import json
import sys
from pathlib import Path

from tests.contract.sites import environment, request_for
from workers.providers.base import Provider
from workers.providers.errors import ProviderError
from workers.providers.registry import PROVIDERS


def launch(provider: Provider, token: str) -> str:
    """The provider id, or the kind of the error."""
    try:
        return provider.launch(request_for(provider, token)).provider_id
    except ProviderError as error:
        return error.kind.value


if __name__ == "__main__":
    env = json.loads(sys.argv[4]) if len(sys.argv) > 4 else environment()
    site = PROVIDERS[sys.argv[1]](Path(sys.argv[2]), env)
    for each in json.loads(sys.argv[3]):
        print(launch(site, each), flush=True)
