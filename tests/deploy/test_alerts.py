"""The alerts: every expression parses, speaks of gauges that are given and labels that they have, and has a runbook."""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from controlplane.gauges.exposition import ENDPOINT, VARIANT, families
from controlplane.gauges.reading import Backlog, FailingVariant, Fleet, Leaks, Machinery, Reading, ShortVariant, Traffic
from tests.deploy.manifests import DEPLOY, ROOT

ALERTS = {
    "HeadraceEndpointShort",
    "HeadraceEndpointFailing",
    "HeadraceBacklogOld",
    "HeadraceMoneyLeak",
    "HeadraceStalled",
}
BUSY = Reading(
    Fleet({"InService": 1}, {"ready": 1}, 1.0, (ShortVariant("1", "e", "v", 2, 1),), 1, {"ml.m5.large": 1}),
    Traffic(10, 9, (FailingVariant("1", "e", "v", 10, 9),), 1, 1.0, (Backlog("1", "e", 1, 1.0),)),
    Leaks(1, {"found": 1}, 1.0, True),
    Machinery({"worker": 1}, 1.0, 1.0),
)
LABELS = {family.name: set(family.samples[0].labels) for family in families(BUSY)}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((DEPLOY / "alerts/headrace.rules.yaml").read_text())["groups"]
    return list(group["rules"])


def selectors(expression: Any) -> Iterator[promql_parser.VectorSelector]:
    """The gauges that an expression reads."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for part in ("expr", "lhs", "rhs"):
        if hasattr(expression, part):
            yield from selectors(getattr(expression, part))
    for each in getattr(expression, "args", None) or []:
        yield from selectors(each)


def test_there_are_five_alerts() -> None:
    assert {rule["alert"] for rule in rules()} == ALERTS


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule['alert']}-{rule['expr'][:40]}")
def test_a_rule_reads_gauges_that_are_given_by_labels_that_they_have(rule: dict[str, Any]) -> None:
    found = list(selectors(promql_parser.parse(rule["expr"])))
    assert found
    for selector in found:
        labels = LABELS[selector.name]
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels
        assert {label for by in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in by.split(", ")} <= labels
    told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert told <= set().union(*(LABELS[selector.name] for selector in found))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule['alert']}-{rule['expr'][:40]}")
def test_a_rule_is_one_alert_whoever_tells_it(rule: dict[str, Any]) -> None:
    """Every API process gives every gauge: what is not added up by `max` or `absent` would fire once for each."""
    bare = re.sub(r"(max( by \([^)]*\) )?|absent)\s*\([^()]*(\{[^}]*\})?[^()]*\)", "", rule["expr"])
    assert "headrace_" not in bare


def test_what_happened_and_what_to_do_is_told() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["runbook"] == f"deploy/runbooks/{rule['alert']}.md"
        assert (ROOT / rule["annotations"]["runbook"]).is_file()


def test_no_two_rules_give_alerts_that_cannot_be_told_apart() -> None:
    own = [(rule["alert"], *sorted(rule["labels"].items())) for rule in rules()]
    assert len(set(own)) == len(own)


def test_the_rules_own_tests_see_every_rule_fire_and_stay_quiet() -> None:
    document = yaml.safe_load((DEPLOY / "alerts/headrace.tests.yaml").read_text())
    assert document["rule_files"] == ["headrace.rules.yaml"]
    asked = [check for test in document["tests"] for check in test["alert_rule_test"]]
    fired = {(check["alertname"], alert["exp_labels"]["severity"]) for check in asked for alert in check["exp_alerts"]}
    quiet = {check["alertname"] for check in asked if not check["exp_alerts"]}
    assert fired == {(rule["alert"], rule["labels"]["severity"]) for rule in rules()}
    assert quiet == ALERTS
    for test in document["tests"]:
        for series in test["input_series"]:
            assert series["series"].partition("{")[0] in LABELS


def test_labels_of_single_endpoints_are_the_same_everywhere() -> None:
    for name, labels in LABELS.items():
        if name.startswith("headrace_variant_"):
            assert labels == set(VARIANT)
        if name.startswith("headrace_endpoint_"):
            assert labels == set(ENDPOINT)
