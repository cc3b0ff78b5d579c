"""HEADRACE_TYPE_WEIGHTS."""

import pytest

from controlplane.routing.weights import read_type_weights, weight_of


def test_a_type_that_is_not_named_has_weight_1() -> None:
    weights = read_type_weights('{"ml.p5.48xlarge": 8, "ml.g5.2xlarge": 0.5}')
    assert [weight_of(weights, name) for name in ("ml.p5.48xlarge", "ml.g5.2xlarge", "ml.m5.large")] == [8.0, 0.5, 1.0]
    assert read_type_weights("") == {}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 0}', '{"a": -1}', '{"a": NaN}', '{"a": 1e9}', '{"a": true}', '{"a": "2"}']
)
def test_nonsense_is_refused_with_the_setting_named(text: str) -> None:
    with pytest.raises(ValueError, match="HEADRACE_TYPE_WEIGHTS"):
        read_type_weights(text)
