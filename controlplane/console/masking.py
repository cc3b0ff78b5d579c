"""Requests as they may be shown: the values of environments are not. Pure.

Environments hold tokens and passwords under any name, so no list of names would be complete.
"""

import json
from typing import Any

HIDDEN = "•••"
_SECRET_MEMBERS = frozenset({"Environment"})


def masked(document: Any) -> Any:
    """The document with every value of an environment replaced."""
    if isinstance(document, dict):
        return {name: _hidden(value) if name in _SECRET_MEMBERS else masked(value) for name, value in document.items()}
    if isinstance(document, list):
        return [masked(each) for each in document]
    return document


def pretty(document: Any) -> str:
    """The masked document, indented."""
    return json.dumps(masked(document), indent=2, ensure_ascii=False)


def _hidden(environment: Any) -> Any:
    return dict.fromkeys(environment, HIDDEN) if isinstance(environment, dict) else HIDDEN
