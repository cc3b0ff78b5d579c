"""The form that an error has at a path, whoever refuses there: the gateway's front, a door of its own, or its parser.

    /endpoints/NAME/openai/...    OpenAI's envelope
    /endpoints/NAME/...           the runtime's
    /api/v1/...                   that of resources: plain JSON
    everything else               the control plane's, JSON 1.1

The OpenAPI document promises these to whoever generates a client.
"""

import re
from collections.abc import Callable

from controlplane.core.errors import ApiError
from controlplane.gateway import openai_errors
from controlplane.wire.errors import WireResponse, json11_error, resource_error, runtime_error

_OPENAI = re.compile(r"/endpoints/[^/]+(/inference-components/[^/]+)?/openai(/.*)?")
_RUNTIME = re.compile(r"/endpoints/[^/]+/.+")


def form_of(path: str) -> Callable[[ApiError, str], WireResponse]:
    """Makes an answer of an error and the request's id."""
    if _OPENAI.fullmatch(path):
        return openai_errors.answer
    if _RUNTIME.fullmatch(path):
        return runtime_error
    return resource_error if path.startswith("/api/v1/") else json11_error
