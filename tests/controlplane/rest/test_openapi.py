"""The OpenAPI document: valid, complete, the same every time, served to everybody, and fit for strict generators."""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from openapi_spec_validator import OpenAPIV30SpecValidator

from controlplane.config.urls import urlpatterns
from controlplane.invocations.models import InvocationState
from controlplane.metrics import rules
from controlplane.rest import openapi_errors
from controlplane.rest.docs import document
from controlplane.rest.openapi_examples import ANSWERS, REQUESTS
from controlplane.rest.openapi_prose import OPERATIONS, TAGS
from controlplane.rest.routes import PREFIX, ROUTES
from controlplane.wire.model import load_service

assert urlpatterns, "the document is made from them"

ROOT = Path(__file__).parents[3]
SCHEMA = "/api/v1/schema/"
METHODS = {"get", "put", "post", "delete", "patch"}
RUNTIME = ("InvokeEndpoint", "InvokeEndpointAsync", "InvokeEndpointWithResponseStream")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, method, operation) of all of them."""
    for path, methods in document()["paths"].items():
        assert set(methods) <= METHODS
        for method, operation in methods.items():
            yield path, method, operation


def by_id() -> dict[str, tuple[str, str, dict[str, Any]]]:
    return {operation["operationId"]: (path, method, operation) for path, method, operation in operations()}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def judge(reference: str) -> jsonschema_rs.Validator:
    """What the document says of values that a reference stands for."""
    return jsonschema_rs.validator_for({"$ref": reference, "components": document()["components"]}, validate_formats=True)


def test_the_command_makes_it_without_a_warning() -> None:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", stdout=out)
    assert json.loads(out.getvalue()) == json.loads(json.dumps(document()))


def test_it_is_valid_openapi() -> None:
    assert list(OpenAPIV30SpecValidator(document()).iter_errors()) == []


def test_every_operation_has_an_id_of_its_own_and_the_aws_ones_keep_their_names() -> None:
    ids = Counter(operation["operationId"] for _, _, operation in operations())
    assert set(ids.values()) == {1}
    assert all(each.isidentifier() for each in ids)
    for route in ROUTES:
        path, method, _ = by_id()[route.operation]
        assert (method.upper(), path) == (route.method, f"{PREFIX}{route.path}")
    for name in RUNTIME:
        path, method, _ = by_id()[name]
        assert (method, path) == ("post", load_service("sagemaker-runtime").operation_model(name).http["requestUri"])


def test_every_reference_leads_somewhere_and_every_component_is_referred_to() -> None:
    schemas = document()["components"]["schemas"]
    referred = {each.removeprefix("#/components/schemas/") for each in references(document())}
    assert referred == set(schemas)


def test_every_operation_is_told_in_words_under_a_tag_that_is_told_too() -> None:
    for path, method, operation in operations():
        assert operation.get("description"), (method, path)
        assert set(operation["tags"]) <= set(TAGS), (method, path)
    assert {tag for _, _, operation in operations() for tag in operation["tags"]} == set(TAGS)
    assert set(OPERATIONS) <= set(by_id())


def test_every_operation_says_who_may_call_it_and_by_known_means() -> None:
    schemes = document()["components"]["securitySchemes"]
    assert set(schemes) == {"sigv4", "token", "session"}
    for path, method, operation in operations():
        named = [name for each in operation["security"] for name in each]
        assert named, (method, path)
        assert set(named) <= set(schemes)
        assert "session" not in named or path.startswith(PREFIX)


def test_every_operation_says_how_it_can_fail() -> None:
    for path, method, operation in operations():
        responses = operation["responses"]
        assert {"400", "403", "500", "503"} <= set(responses), (method, path)
        assert "default" not in responses, "generators warn of it"
        assert [status for status in responses if status < "300"], (method, path)
        for status in (each for each in responses if each >= "400"):
            assert responses[status]["content"]["application/json"]["schema"]["$ref"].endswith("Error")
        if path.startswith(PREFIX) and "requestBody" in operation:
            assert {"408", "413", "415"} <= set(responses)


def test_every_code_of_the_error_tree_is_in_the_enum() -> None:
    assert {"ValidationException", "ResourceLimitExceeded", "ModelError", "InvalidSignatureException"} <= set(
        openapi_errors.codes()
    )
    assert document()["components"]["schemas"]["ErrorCode"]["enum"] == sorted(set(openapi_errors.codes()))


def test_placeholders_and_path_parameters_are_the_same() -> None:
    for path, method, operation in operations():
        placeholders = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        told = [each for each in operation.get("parameters", ()) if each["in"] == "path"]
        assert {each["name"] for each in told} == placeholders, (method, path)
        assert all(each["required"] for each in told)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_examples_of_requests_are_good_ones(name: str) -> None:
    media = by_id()[name][2]["requestBody"]["content"]["application/json"]
    for example in media["examples"].values():
        judge(media["schema"]["$ref"]).validate(example["value"])


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_examples_of_answers_are_good_ones(name: str) -> None:
    responses = by_id()[name][2]["responses"]
    [media] = [answer["content"]["application/json"] for status, answer in responses.items() if status < "300"]
    judge(media["schema"]["$ref"]).validate(media["example"])


def test_enums_have_names_that_a_new_resource_does_not_change() -> None:
    """The library would make names up from members' names; another enum under the same one would rename both."""
    schemas = document()["components"]["schemas"]
    assert not [name for name in schemas if name.endswith("Enum")]
    enums = {name: schema["enum"] for name, schema in schemas.items() if "enum" in schema}
    assert enums["AsyncRequestStatus"] == InvocationState.values
    assert "" in enums["OrphanWishOrNone"]


def test_invocations_carry_bytes_and_tell_their_headers() -> None:
    for name in RUNTIME:
        _, _, operation = by_id()[name]
        body = operation["requestBody"]["content"]["application/octet-stream"]["schema"]
        assert body == {"type": "string", "format": "binary"}
        assert not operation["requestBody"]["required"], "an empty body cannot be told from none"
    whole = by_id()["InvokeEndpoint"][2]["responses"]["200"]
    assert set(whole["content"]) == {"application/octet-stream", "*/*"}
    assert {"x-Amzn-Invoked-Production-Variant", "X-Amzn-SageMaker-Custom-Attributes"} <= set(whole["headers"])
    accepted = by_id()["InvokeEndpointAsync"][2]
    assert set(accepted["responses"]["202"]["headers"]) == {
        "X-Amzn-SageMaker-OutputLocation",
        "X-Amzn-SageMaker-FailureLocation",
    }
    headers = {each["name"]: each["schema"] for each in accepted["parameters"] if each["in"] == "header"}
    assert "X-Amzn-SageMaker-Content-Type" in headers
    ttl, timeout = (headers[f"X-Amzn-SageMaker-{each}Seconds"] for each in ("RequestTTL", "InvocationTimeout"))
    assert [(each["minimum"], each["maximum"]) for each in (ttl, timeout)] == [(60, 21600), (1, 3600)]
    for name in ("Content-Type", "Accept", "Authorization"):
        assert name not in headers, "OpenAPI ignores parameters of these names"


def test_anybody_gets_it_as_json_unless_yaml_is_asked_for() -> None:
    plain = Client().get(SCHEMA)
    assert (plain.status_code, plain.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(plain.content) == json.loads(json.dumps(document()))
    for kind in ("application/yaml", "application/vnd.oai.openapi"):
        told = Client().get(SCHEMA, headers={"Accept": kind})
        assert told.headers["Content-Type"] == kind
        assert yaml.safe_load(told.content) == json.loads(plain.content)
    browser = "text/html,application/xhtml+xml,*/*;q=0.8"
    assert Client().get(SCHEMA, headers={"Accept": browser}).headers["Content-Type"] == "application/json"


def test_whoever_has_it_is_not_sent_it_again() -> None:
    tag = Client().get(SCHEMA).headers["ETag"]
    again = Client().get(SCHEMA, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert Client().get(SCHEMA, headers={"If-None-Match": '"other"'}).status_code == 200


def test_two_processes_make_the_same_bytes() -> None:
    made = "import sys; from django.core.management import call_command as call; import django; django.setup(); "
    made += "call('spectacular', '--format', 'openapi-json', stdout=sys.stdout)"

    def start(seed: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "DJANGO_SETTINGS_MODULE": "controlplane.config.settings"}
        return subprocess.Popen([sys.executable, "-c", made], cwd=ROOT, env=environment, stdout=subprocess.PIPE)

    digests = [hashlib.sha256(process.communicate()[0]).hexdigest() for process in [start("1"), start("2")]]
    assert len(set(digests)) == 1


def test_what_a_handler_insists_on_is_required_by_the_document_too() -> None:
    schemas = document()["components"]["schemas"]
    assert set(rules.NEEDED) <= set(schemas["PutMetricAlarmRequest"]["required"])


@pytest.mark.parametrize(("path", "library"), [("docs/", "SwaggerUIBundle"), ("redoc/", "Redoc")])
def test_pages_show_it_with_nothing_from_elsewhere(path: str, library: str) -> None:
    page = Client().get(f"/api/v1/{path}")
    text = page.content.decode()
    assert page.status_code == 200
    assert f'data-document="{SCHEMA}"' in text
    assert "//" not in text, "no address of another host"
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    sources = [part.partition('"')[0] for part in text.split('src="')[1:]]
    assert any(library in _served(source) for source in sources)


def _served(path: str) -> str:
    answer = Client().get(path)
    assert answer.status_code == 200, path
    return b"".join(answer.streaming_content).decode()
