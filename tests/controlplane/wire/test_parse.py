"""Bodies that are not what they should be: each is refused in a sentence that names the member, none is a crash."""

import json

import pytest

from controlplane.core.errors import SerializationException, ValidationError
from controlplane.wire.model import load_service
from controlplane.wire.parse import parse_headers, parse_json

SERVICE = load_service("sagemaker")
LIST = SERVICE.operation_model("ListEndpoints").input_shape
CONFIG = SERVICE.operation_model("CreateEndpointConfig").input_shape
ASYNC = load_service("sagemaker-runtime").operation_model("InvokeEndpointAsync").input_shape


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The body is not valid JSON."),
        (b"\xef\xbb\xbf{}", "The body is not valid JSON."),
        (b"{}{}", "The body is not valid JSON."),
        (b'{"MaxResults": NaN}', "The body is not valid JSON."),
        (b'{"MaxResults": -Infinity}', "The body is not valid JSON."),
        (b'{"MaxResults": 1' + b"0" * 5000 + b"}", "The body is not valid JSON."),
        (b'{"Unheard": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "The body is not valid JSON."),
        (b'{"NameContains": "\xff"}', "The body is not valid UTF-8."),
        (b'{"NameContains": "\xed\xa0\x80"}', "The body is not valid UTF-8."),
        (b"\xff\xfe{\x00}\x00", "The body is not valid UTF-8."),
        (b"[]", "The body must be a JSON object."),
        (b"null", "The body must be a JSON object."),
        (b'"{}"', "The body must be a JSON object."),
        (b'{"MaxResults": "10"}', "MaxResults must be a whole number."),
        (b'{"MaxResults": true}', "MaxResults must be a whole number."),
        (b'{"MaxResults": 1.5}', "MaxResults must be a whole number."),
        (b'{"MaxResults": 1e999}', "MaxResults must be a whole number."),
        (b'{"MaxResults": []}', "MaxResults must be a whole number."),
        (b'{"NameContains": 7}', "NameContains must be a string."),
        (b'{"CreationTimeAfter": 1e18}', "CreationTimeAfter must be a time in seconds since 1970."),
        (b'{"CreationTimeAfter": "soon"}', "CreationTimeAfter must be a time in seconds since 1970."),
        (b'{"CreationTimeAfter": 1' + b"0" * 400 + b"}", "CreationTimeAfter must be a finite number."),
        (b'{"CreationTimeAfter": {}}', "CreationTimeAfter must be a finite number."),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(body: bytes, message: str) -> None:
    with pytest.raises(SerializationException) as caught:
        parse_json(body, LIST)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ProductionVariants": {}}, "ProductionVariants must be a list."),
        ({"ProductionVariants": [None]}, "ProductionVariants[0] must be an object."),
        ({"ProductionVariants": [{}, 7]}, "ProductionVariants[1] must be an object."),
        ({"ProductionVariants": [{"VariantName": []}]}, "ProductionVariants[0].VariantName must be a string."),
        (
            {"ProductionVariants": [{"InstancePools": [{"Priority": "1"}]}]},
            "ProductionVariants[0].InstancePools[0].Priority must be a whole number.",
        ),
        (
            {"ProductionVariants": [{"InitialVariantWeight": "1"}]},
            "ProductionVariants[0].InitialVariantWeight must be a finite number.",
        ),
        (
            {"ProductionVariants": [{"InitialVariantWeight": 10**400}]},
            "ProductionVariants[0].InitialVariantWeight must be a finite number.",
        ),
        ({"EnableNetworkIsolation": 0}, "EnableNetworkIsolation must be true or false."),
        ({"AsyncInferenceConfig": []}, "AsyncInferenceConfig must be an object."),
    ],
)
def test_a_wrong_type_is_told_with_its_path(params: dict[str, object], message: str) -> None:
    with pytest.raises(SerializationException) as caught:
        parse_json(json.dumps(params).encode(), CONFIG)
    assert caught.value.message == message


def test_a_wrong_type_in_a_map_is_told_with_its_key() -> None:
    shape = SERVICE.operation_model("CreateModel").input_shape
    body = json.dumps({"PrimaryContainer": {"Environment": {"A": 1}}}).encode()
    with pytest.raises(SerializationException, match=r"^PrimaryContainer\.Environment\.A must be a string\.$"):
        parse_json(body, shape)


@pytest.mark.parametrize("digits", [19, 309, 400, 4000])
def test_a_huge_integer_is_read_as_it_is_and_left_to_validation(digits: int) -> None:
    number = 10**digits
    assert parse_json(f'{{"MaxResults": {number}}}'.encode(), LIST) == {"MaxResults": number}


@pytest.mark.parametrize(
    ("body", "params"),
    [
        (b"", {}),
        (b" \n", {}),
        (b"{}", {}),
        (b'{"MaxResults": 5.0}', {"MaxResults": 5}),
        (b'{"MaxResults": null, "NameContains": "a"}', {"NameContains": "a"}),
        (b'{"Unheard": {"of": [1]}, "maxResults": 3}', {}),
        (b'{"NameContains": "\\ud800"}', {"NameContains": "\ud800"}),
    ],
)
def test_what_can_be_read_is_read_and_the_unknown_is_dropped(body: bytes, params: dict[str, object]) -> None:
    assert parse_json(body, LIST) == params


@pytest.mark.parametrize("text", ["", "-", "--5", "+5", "5.0", "1e3", "0x10", "\u00b2", "9" * 19])
def test_a_header_that_must_be_a_number_is_one_or_refused(text: str) -> None:
    headers = {"x-amzn-sagemaker-requestttlseconds": text}
    if not text:
        assert parse_headers(ASYNC, {}, headers) == {}
        return
    with pytest.raises(ValidationError, match=r"^Header X-Amzn-SageMaker-RequestTTLSeconds must be a whole number\.$"):
        parse_headers(ASYNC, {}, headers)


def test_path_and_headers_become_members() -> None:
    headers = {
        "x-amzn-sagemaker-requestttlseconds": " 90 ",
        "x-amzn-sagemaker-content-type": "text/csv",
        "content-type": "ignored: the operation has a header of its own",
    }
    found = parse_headers(ASYNC, {"EndpointName": "e"}, headers)
    assert found == {"EndpointName": "e", "RequestTTLSeconds": 90, "ContentType": "text/csv"}
