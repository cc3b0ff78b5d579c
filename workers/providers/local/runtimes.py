"""How an image is run as a process: image reference -> command, `{port}` and `{model_dir}` filled in.

`HEADRACE_RUNTIMES` (a JSON object of lists) adds to the built-in ones and may replace them.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from workers.providers.errors import ErrorKind, ProviderError

_IMAGES = Path(__file__).parents[3] / "deploy" / "images"
REFERENCE = str(_IMAGES / "reference" / "server.py")
ENGINE = str(_IMAGES / "engine" / "server.py")

BUILT_IN: dict[str, list[str]] = {
    "headrace/reference": [sys.executable, "-S", "-E", REFERENCE],
    "headrace/reference:latest": [sys.executable, "-S", "-E", REFERENCE],
    "headrace/engine": [sys.executable, "-S", "-E", ENGINE],
    "headrace/engine:latest": [sys.executable, "-S", "-E", ENGINE],
}


def read_runtimes(env: Mapping[str, str]) -> dict[str, list[str]]:
    """All runtimes; raises ValueError when the setting is no object of lists of strings."""
    try:
        added = json.loads(env.get("HEADRACE_RUNTIMES") or "{}")
    except ValueError as error:
        raise ValueError(f"HEADRACE_RUNTIMES must be a JSON object: {error}.") from error
    is_legal = isinstance(added, dict) and all(
        isinstance(command, list) and command and all(isinstance(part, str) for part in command)
        for command in added.values()
    )
    if not is_legal:
        raise ValueError("HEADRACE_RUNTIMES must be a JSON object: image -> list of strings.")
    return {**BUILT_IN, **added}


def command_for(runtimes: Mapping[str, list[str]], image: str) -> list[str]:
    """The command template of `image`; raises MISCONFIGURED, naming the setting that would add it."""
    command = runtimes.get(image)
    if command is None:
        raise ProviderError(
            ErrorKind.MISCONFIGURED,
            f"No runtime is known for the image {image!r}; add it to HEADRACE_RUNTIMES.",
        )
    return command
