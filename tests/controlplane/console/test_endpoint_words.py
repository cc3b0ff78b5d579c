"""Endpoints in words."""

import pytest

from controlplane.console import endpoint_words as words
from controlplane.endpoints.models import DeploymentStage
from controlplane.endpoints.options import parse
from controlplane.endpoints.states import Phase
from controlplane.endpoints.strategies import strategy_of
from controlplane.fleet.states import InstanceStage

TEN = {"Type": "CAPACITY_PERCENT", "Value": 10}


def test_every_phase_and_every_stage_has_its_word_and_its_colour() -> None:
    assert set(words.LABELS) == set(words.TONES) == set(Phase.values)
    assert set(words.STAGE_TONES) == set(InstanceStage.values)


@pytest.mark.parametrize(
    ("config", "is_surgeless", "sentence"),
    [
        ({}, False, "Blue/green, all at once: a whole new fleet beside the old one, then every call goes to it."),
        ({}, True, "Rolling without surge: 1 instance of the fleet at a time, the old instances going before the new"),
        (
            {"RollingUpdatePolicy": {"MaximumBatchSize": TEN, "WaitIntervalInSeconds": 90}},
            False,
            "Rolling: 10 % of the fleet at a time, the new instances serving before the old ones go",
        ),
    ],
    ids=["blue-green", "surgeless", "rolling"],
)
def test_a_strategy_is_told_in_a_sentence(config: dict[str, object], is_surgeless: bool, sentence: str) -> None:
    assert words.strategy(strategy_of(config, is_surgeless=is_surgeless)).startswith(sentence)


@pytest.mark.parametrize("stage", [each.value for each in DeploymentStage])
@pytest.mark.parametrize("rollout", ["ALL_AT_ONCE", "CANARY", "LINEAR", "ROLLING", "SURGELESS"])
def test_the_way_of_a_deployment_has_one_place_at_most_where_it_is(rollout: str, stage: str) -> None:
    found = words.stops({"rollout": rollout}, stage)
    standings = [stop.standing for stop in found]
    assert standings.count("now") == (stage not in ("pending", "rolling back"))
    assert standings == sorted(standings, key=["done", "now", "ahead"].index)


def test_options_are_told_each_in_a_sentence() -> None:
    tags = {
        "coming-home": "10m",
        "max-hourly-price": "1.50",
        "patience": "ml.p5.48xlarge=20m",
        "market": "spot on-demand",
        "wake": "2",
        "surge": "none",
    }
    told = list(words.options(parse((f"headrace:{name}", value) for name, value in tags.items())))
    assert len(told) == len(tags)
    assert "ml.p5.48xlarge is asked only after 20 min without an instance." in told
    assert "Asks the markets spot, then on-demand." in told
    assert list(words.options(parse([]))) == []
