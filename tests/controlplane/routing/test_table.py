"""The routing table and its JSON documents."""

import json
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.table import AsyncInference, Route, Table, Target, VariantRoute, decode, encode

_text = st.text(max_size=20)
_weights = st.floats(0, allow_infinity=False)
_targets = st.builds(Target, _text, _text, _text, st.booleans())
_variants = st.builds(VariantRoute, _text, _weights, _text, st.lists(_targets, max_size=3).map(tuple))
_asynchronous = st.none() | st.builds(AsyncInference, _text, _text, st.none() | st.integers(1, 1000))
_routes = st.builds(
    Route, _text, _text, _text, _text, st.booleans(), _asynchronous, st.lists(_variants, max_size=3).map(tuple)
)


@given(_routes)
def test_a_route_survives_its_json_document(route: Route) -> None:
    assert decode(json.loads(json.dumps(encode(route), allow_nan=False))) == route


def test_the_document_names_its_members() -> None:
    target = Target("i-1", "127.0.0.1:9", "ml.m5.large", True)
    route = Route("id", "123456789012", "e", "InService", True, None, (VariantRoute("v", 0.5, "RANDOM", (target,)),))
    assert encode(route) == {
        "endpoint_id": "id",
        "account_id": "123456789012",
        "endpoint_name": "e",
        "status": "InService",
        "is_serving": True,
        "async_inference": None,
        "variants": [
            {
                "name": "v",
                "weight": 0.5,
                "strategy": "RANDOM",
                "targets": [
                    {
                        "instance_id": "i-1",
                        "address": "127.0.0.1:9",
                        "instance_type": "ml.m5.large",
                        "is_draining": True,
                    }
                ],
                "share": 1.0,
                "config_name": "",
                "prefix_aware": None,
                "capture": None,
            }
        ],
        "shadows": [],
    }


def test_an_endpoint_is_found_by_its_account_and_its_name() -> None:
    mine, theirs = (Route(account, account, "e", "InService", True, None, ()) for account in ("1", "2"))
    table = Table.of([mine, theirs])
    assert table.find("1", "e") is mine
    assert table.find("2", "e") is theirs
    assert table.find("1", "f") is None
    assert table.find("3", "e") is None
    assert Table().find("1", "e") is None


def test_only_instances_that_do_not_drain_take_new_calls() -> None:
    stays, drains = Target("a", "h:1", "t", False), Target("b", "h:2", "t", True)
    assert VariantRoute("v", 1.0, "RANDOM", (drains, stays)).open_targets == (stays,)


def test_a_route_cannot_be_changed_under_a_reader() -> None:
    route = Route("id", "1", "e", "InService", True, None, ())
    with pytest.raises(FrozenInstanceError):
        route.status = "Failed"  # type: ignore[misc]
