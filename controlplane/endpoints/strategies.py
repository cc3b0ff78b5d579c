"""From the API's DeploymentConfig to the strategy that the deployment planner walks. Pure.

Sizes are percentages of the fleet or numbers of instances; waits are seconds (contract section 11.1).
"""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

Config = Mapping[str, Any]

WHOLE = {"unit": "CAPACITY_PERCENT", "value": 100}
ONE = {"unit": "INSTANCE_COUNT", "value": 1}

CANARY_PERCENT = (1, 50)
LINEAR_PERCENT = (10, 50)
BATCH_PERCENT = (5, 50)
ROLLBACK_PERCENT = (5, 100)


def strategy_of(config: Config, *, is_surgeless: bool) -> dict[str, Any]:
    """The strategy of a valid DeploymentConfig; an empty one is blue/green all at once, or one by one without surge."""
    if "RollingUpdatePolicy" in config:
        policy = config["RollingUpdatePolicy"]
        return {
            "rollout": "SURGELESS" if is_surgeless else "ROLLING",
            "size": _size(policy["MaximumBatchSize"]),
            "rollback_size": _size(policy["RollbackMaximumBatchSize"]) if "RollbackMaximumBatchSize" in policy else WHOLE,
            "bake_seconds": policy["WaitIntervalInSeconds"],
        }
    if is_surgeless:
        return {"rollout": "SURGELESS", "size": ONE}
    policy = config.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    size = routing.get("CanarySize") or routing.get("LinearStepSize")
    return {
        "rollout": routing.get("Type", "ALL_AT_ONCE"),
        "size": _size(size) if size else WHOLE,
        "bake_seconds": routing.get("WaitIntervalInSeconds", 0),
        "termination_wait_seconds": policy.get("TerminationWaitInSeconds", 0),
    }


def execution_timeout_of(config: Config) -> int | None:
    """MaximumExecutionTimeoutInSeconds of whichever policy there is; None when it sets no limit."""
    for name in ("BlueGreenUpdatePolicy", "RollingUpdatePolicy"):
        if "MaximumExecutionTimeoutInSeconds" in config.get(name, {}):
            return int(config[name]["MaximumExecutionTimeoutInSeconds"])
    return None


def alarms_of(config: Config) -> list[str]:
    """The names of the alarms that undo the deployment, each once."""
    alarms = config.get("AutoRollbackConfiguration", {}).get("Alarms", [])
    return list(dict.fromkeys(alarm["AlarmName"] for alarm in alarms if alarm.get("AlarmName")))


def violations(config: Config, *, is_surgeless: bool = False) -> Iterator[str]:
    """What is wrong with a DeploymentConfig as a whole, one sentence each."""
    has_blue_green, has_rolling = "BlueGreenUpdatePolicy" in config, "RollingUpdatePolicy" in config
    if has_blue_green and has_rolling:
        yield "DeploymentConfig must specify at most one of BlueGreenUpdatePolicy and RollingUpdatePolicy."
    if has_blue_green and is_surgeless:
        yield (
            'BlueGreenUpdatePolicy needs a second fleet, which the tag "headrace:surge" = "none" rules out; '
            "use RollingUpdatePolicy, or remove the tag."
        )
    if has_blue_green:
        yield from _blue_green_violations(config["BlueGreenUpdatePolicy"])
    if has_rolling:
        policy = config["RollingUpdatePolicy"]
        yield from _size_violations("MaximumBatchSize", policy["MaximumBatchSize"], BATCH_PERCENT)
        if "RollbackMaximumBatchSize" in policy:
            yield from _size_violations("RollbackMaximumBatchSize", policy["RollbackMaximumBatchSize"], ROLLBACK_PERCENT)
    if any(not alarm.get("AlarmName") for alarm in config.get("AutoRollbackConfiguration", {}).get("Alarms", [])):
        yield "Each of AutoRollbackConfiguration.Alarms must have an AlarmName."
    yield from _timeout_violations(config)


def _blue_green_violations(policy: Config) -> Iterator[str]:
    routing = policy["TrafficRoutingConfiguration"]
    sizes = {"CANARY": ("CanarySize", CANARY_PERCENT), "LINEAR": ("LinearStepSize", LINEAR_PERCENT)}
    for kind, (member, bounds) in sizes.items():
        if routing["Type"] == kind and member not in routing:
            yield f"TrafficRoutingConfiguration of type {kind} must specify {member}."
        elif routing["Type"] != kind and member in routing:
            yield f"{member} may only be specified for a TrafficRoutingConfiguration of type {kind}."
        elif member in routing:
            yield from _size_violations(member, routing[member], bounds)


def _size_violations(member: str, size: Config, percent: tuple[int, int]) -> Iterator[str]:
    least, most = percent
    if size["Type"] == "CAPACITY_PERCENT" and not least <= size["Value"] <= most:
        yield f"{member} of type CAPACITY_PERCENT must be between {least} and {most}, not {size['Value']}."


def _timeout_violations(config: Config) -> Iterator[str]:
    """The timeout must exceed the sum of the waits, as far as they are known before the fleet's size is."""
    timeout = execution_timeout_of(config)
    if timeout is None:
        return
    strategy = strategy_of(config, is_surgeless=False)
    waits = _steps(strategy) * strategy["bake_seconds"] + strategy.get("termination_wait_seconds", 0)
    if timeout <= waits:
        yield f"MaximumExecutionTimeoutInSeconds ({timeout}) must exceed the sum of all waits ({waits})."


def _steps(strategy: Mapping[str, Any]) -> int:
    """How many times the strategy bakes; a size in instances counts as one step."""
    size = strategy["size"]
    if strategy["rollout"] == "ALL_AT_ONCE" or size["unit"] == "INSTANCE_COUNT":
        return 1
    return 2 if strategy["rollout"] == "CANARY" else ceil(100 / max(size["value"], 1))


def _size(size: Config) -> dict[str, Any]:
    return {"unit": size["Type"], "value": size["Value"]}
