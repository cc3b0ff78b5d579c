"""Whoever refuses a request before its door does, does so in that door's form."""

import json

import pytest

from controlplane.core.errors import MissingAuthenticationToken, RequestTooLarge
from controlplane.gateway.error_forms import form_of
from tests.controlplane.gateway.site import Site

PLAIN, RPC = "application/json", "application/x-amz-json-1.1"


@pytest.mark.parametrize(
    ("path", "content_type", "said", "status"),
    [
        ("/", RPC, "message", 400),
        ("/nothing", RPC, "message", 400),
        ("/endpoints", RPC, "message", 400),
        ("/api/v1/endpoints", PLAIN, "message", 403),
        ("/api/v1/endpoints/openai", PLAIN, "message", 403),
        ("/endpoints/e/invocations", PLAIN, "Message", 403),
        ("/endpoints/e/async-invocations", PLAIN, "Message", 403),
        ("/endpoints/openai/invocations", PLAIN, "Message", 403),
        ("/endpoints/e/openai", PLAIN, "error", 401),
        ("/endpoints/e/openai/v1/models", PLAIN, "error", 401),
        ("/endpoints/e/inference-components/c/openai/v1/models", PLAIN, "error", 401),
    ],
)
def test_a_path_has_its_form(path: str, content_type: str, said: str, status: int) -> None:
    answer = form_of(path)(MissingAuthenticationToken("Who?"), "id")
    assert (dict(answer.headers)["Content-Type"], answer.status) == (content_type, status)
    assert said in json.loads(answer.body)
    too_large = form_of(path)(RequestTooLarge("Too large."), "id")
    assert (too_large.status, dict(too_large.headers)["x-amzn-ErrorType"]) == (413, RequestTooLarge.code)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/api/v1/models", "message"), ("/endpoints/e/invocations", "Message"), ("/endpoints/e/openai/v1", "error")],
)
def test_a_head_that_is_too_large_is_refused_in_the_form_of_its_path(site: Site, path: str, said: str) -> None:
    answer = site.request("POST", f"{path}?x={'y' * 70_000}")
    assert (answer.status, answer.headers["content-type"]) == (431, PLAIN)
    assert said in answer.json
