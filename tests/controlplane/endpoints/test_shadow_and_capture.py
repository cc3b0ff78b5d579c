"""Shadow variants and data capture, from the configuration to what clients and gateways are told."""

from typing import Any

import pytest

from controlplane.core.errors import ValidationException
from controlplane.routing.models import RoutingSnapshot
from controlplane.routing.table import Capture, Route, decode
from tests.workers.plane import FIRST, IMAGE, SECOND, THIRD, Plane

CAPTURE = {
    "InitialSamplingPercentage": 40,
    "DestinationS3Uri": "s3://kept/in",
    "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
}
SHOWN = {
    "EnableCapture": True,
    "CaptureStatus": "Started",
    "CurrentSamplingPercentage": 40,
    "DestinationS3Uri": "s3://kept/in",
    "KmsKeyId": "",
}


def variant(name: str, model: str, instance_type: str = THIRD, **changes: Any) -> dict[str, Any]:
    return {
        "VariantName": name,
        "ModelName": model,
        "InitialInstanceCount": 1,
        "InstanceType": instance_type,
        **changes,
    }


def configure(plane: Plane, name: str, *, shadow: dict[str, Any] | None = None, **members: Any) -> None:
    """A configuration with a production variant, its shadow if one is given, and these other members."""
    for model in (name, f"{name}-new"):
        plane.call("CreateModel", ModelName=model, PrimaryContainer={"Image": IMAGE})
    production = variant("v", name, SECOND)
    shadows = {} if shadow is None else {"ShadowProductionVariants": [variant("s", f"{name}-new", **shadow)]}
    plane.call("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[production], **shadows, **members)


def create(plane: Plane, **config: Any) -> None:
    configure(plane, "e", **config)
    plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")


def told() -> Route:
    """What the gateways know."""
    return decode(RoutingSnapshot.objects.get(endpoint_name="e").document)


# Shadows.


def test_a_shadow_is_deployed_beside_its_variant_and_told_apart(plane: Plane) -> None:
    create(plane, shadow={"InitialVariantWeight": 0.5})
    pending = plane.describe()["PendingDeploymentSummary"]
    assert [each["VariantName"] for each in pending["ProductionVariants"]] == ["v"]
    assert [each["VariantName"] for each in pending["ShadowProductionVariants"]] == ["s"]
    plane.settle()
    shown = plane.describe()
    assert shown["EndpointStatus"] == "InService"
    assert [each["VariantName"] for each in shown["ProductionVariants"]] == ["v"]
    (shadow,) = shown["ShadowProductionVariants"]
    assert (shadow["VariantName"], shadow["CurrentInstanceCount"], shadow["CurrentWeight"]) == ("s", 1, 0.5)
    assert plane.live() == {SECOND: 1, THIRD: 1}
    assert [(each.name, len(each.open_targets)) for each in told().variants] == [("v", 1)]
    assert [(each.name, each.weight, len(each.open_targets)) for each in told().shadows] == [("s", 0.5, 1)]


def test_the_configuration_is_echoed(plane: Plane) -> None:
    create(plane, shadow={}, DataCaptureConfig=CAPTURE)
    shown = plane.call("DescribeEndpointConfig", EndpointConfigName="e")
    assert shown["ShadowProductionVariants"] == [{"InitialVariantWeight": 1.0, **variant("s", "e-new")}]
    assert shown["DataCaptureConfig"] == CAPTURE


def test_a_shadow_that_cannot_be_had_fails_the_endpoint_like_any_variant(plane: Plane) -> None:
    plane.world.set_capacity(THIRD, 0)
    create(plane, shadow={"VariantInstanceProvisionTimeoutInSeconds": 300})
    plane.settle()
    assert plane.describe()["EndpointStatus"] == "Creating"
    plane.until(lambda: plane.status() == "Failed")
    plane.until(lambda: plane.live() == {})


def test_a_shadow_comes_and_goes_with_an_update(plane: Plane) -> None:
    create(plane)
    plane.settle()
    assert "ShadowProductionVariants" not in plane.describe()
    configure(plane, "next", shadow={})
    plane.update()
    plane.until(lambda: plane.status() == "InService" and len(plane.live()) == 2)
    assert [each.name for each in told().shadows] == ["s"]
    configure(plane, "last")
    plane.update(config="last")
    plane.until(lambda: plane.status() == "InService" and plane.live() == {SECOND: 1})
    plane.until(lambda: told().shadows == ())
    assert "ShadowProductionVariants" not in plane.describe()


def test_a_shadow_of_two_or_of_its_own_name_is_refused(plane: Plane) -> None:
    plane.call("CreateModel", ModelName="m", PrimaryContainer={"Image": IMAGE})
    two = {"ProductionVariants": [variant("a", "m"), variant("b", "m")], "ShadowProductionVariants": [variant("c", "m")]}
    same = {"ProductionVariants": [variant("a", "m")], "ShadowProductionVariants": [variant("a", "m")]}
    half = {"ProductionVariants": [variant("a", "m")], "ShadowProductionVariants": [{"VariantName": "c", "ModelName": "m"}]}
    lost = {"ProductionVariants": [variant("a", "m")], "ShadowProductionVariants": [variant("c", "nothing")]}
    for members, text in (
        (two, "exactly one shadow variant"),
        (same, "more than once"),
        (half, 'Shadow variant "c" must specify InitialInstanceCount'),
        (lost, "Could not find model"),
    ):
        with pytest.raises(ValidationException, match=text):
            plane.call("CreateEndpointConfig", EndpointConfigName="x", **members)


# Capture.


def test_a_capture_is_shown_and_told_to_the_gateways(plane: Plane) -> None:
    create(plane, shadow={}, DataCaptureConfig=CAPTURE)
    assert "DataCaptureConfig" not in plane.describe()
    plane.settle()
    assert plane.describe()["DataCaptureConfig"] == SHOWN
    expected = Capture("s3://kept/in", 40, True, True, (), ("application/json",))
    assert [each.capture for each in (*told().variants, *told().shadows)] == [expected] * 2


@pytest.mark.parametrize(
    ("modes", "expected"),
    [(["Input"], (True, False)), (["Output"], (False, True)), (["InputAndOutput"], (True, True))],
)
def test_the_modes_say_which_sides_are_kept(plane: Plane, modes: list[str], expected: tuple[bool, bool]) -> None:
    create(plane, DataCaptureConfig={**CAPTURE, "CaptureOptions": [{"CaptureMode": mode} for mode in modes]})
    plane.settle()
    capture = told().variants[0].capture
    assert capture is not None
    assert (capture.takes_input, capture.takes_output) == expected


def test_a_capture_that_is_off_is_shown_as_stopped(plane: Plane) -> None:
    create(plane, DataCaptureConfig={**CAPTURE, "EnableCapture": False})
    plane.settle()
    assert plane.describe()["DataCaptureConfig"] == {**SHOWN, "EnableCapture": False, "CaptureStatus": "Stopped"}
    assert told().variants[0].capture is None


@pytest.mark.parametrize(
    ("options", "is_kept"),
    [
        ({}, False),
        ({"RetainAllVariantProperties": True}, True),
        (
            {
                "RetainAllVariantProperties": True,
                "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DataCaptureConfig"}],
            },
            False,
        ),
    ],
)
def test_an_update_brings_its_own_capture_or_retains_the_present_one(
    plane: Plane, options: dict[str, Any], is_kept: bool
) -> None:
    create(plane, DataCaptureConfig=CAPTURE)
    plane.settle()
    configure(plane, "next", DataCaptureConfig={**CAPTURE, "InitialSamplingPercentage": 7})
    plane.update(**options)
    plane.until(lambda: plane.status() == "InService" and len(told().variants) == 1)
    assert plane.describe()["DataCaptureConfig"]["CurrentSamplingPercentage"] == (40 if is_kept else 7)
    capture = told().variants[0].capture
    assert capture is not None
    assert capture.percentage == (40 if is_kept else 7)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"DestinationS3Uri": "https://kept.s3.amazonaws.com/in"}, "must be an s3:// location"),
        ({"DestinationS3Uri": "s3:///in"}, "must be an s3:// location"),
        ({"KmsKeyId": "a-key"}, "DataCaptureConfig.KmsKeyId has no effect with the embedded store"),
        (
            {"CaptureContentTypeHeader": {"JsonContentTypes": ["a/b"], "CsvContentTypes": ["a/b"]}},
            'lists "a/b" more than once',
        ),
    ],
)
def test_a_capture_that_cannot_work_is_refused(plane: Plane, settings: Any, changes: dict[str, Any], text: str) -> None:
    settings.HEADRACE = settings.HEADRACE.__class__(**{**vars(settings.HEADRACE), "is_store_embedded": True})
    with pytest.raises(ValidationException, match=text):
        create(plane, DataCaptureConfig={**CAPTURE, **changes})


@pytest.mark.parametrize("member", ["shadow", "DataCaptureConfig"])
def test_neither_goes_with_asynchronous_calls(plane: Plane, member: str) -> None:
    asynchronous = {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://out"}}}
    given: dict[str, Any] = {"shadow": {}} if member == "shadow" else {"DataCaptureConfig": CAPTURE}
    with pytest.raises(ValidationException, match="not supported by Headrace together with AsyncInferenceConfig"):
        create(plane, **given, **asynchronous)


def test_the_pools_of_a_shadow_fall_back_as_well(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    pools = [{"InstanceType": FIRST, "Priority": 1}, {"InstanceType": THIRD, "Priority": 2}]
    plane.call("CreateModel", ModelName="m", PrimaryContainer={"Image": IMAGE})
    shadow = variant("s", "m", InstancePools=pools)
    del shadow["InstanceType"]
    plane.call(
        "CreateEndpointConfig",
        EndpointConfigName="e",
        ProductionVariants=[variant("v", "m", SECOND)],
        ShadowProductionVariants=[shadow],
    )
    plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
    plane.settle()
    assert plane.status() == "InService"
    assert plane.live() == {SECOND: 1, THIRD: 1}
