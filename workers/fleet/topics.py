"""What the trial of an endpoint's topics means for its plan. Pure.

Creating and changing an asynchronous endpoint sends a test message to each of its topics. While one is under way the
operation goes on, except that it does not end, nor a deployment begin; one that was not taken fails the operation.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from controlplane.core.words import counted
from workers.fleet import rollout
from workers.fleet.actions import Advance, EnterService, FinishDeployment, GiveUp, Plan
from workers.fleet.view import IN_OPERATION, DeploymentStage, Endpoint

LOOK_SECONDS = 1.0
"""Whoever sends the messages has the endpoint looked at again at once; this is for one that could not."""

_HELD = (EnterService, Advance, FinishDeployment)


def gate(endpoint: Endpoint, decided: Plan, now: datetime) -> Plan:
    """The plan as the trial of the endpoint's topics leaves it."""
    topics, deployment = endpoint.topics, endpoint.deployment
    is_undone = deployment is not None and deployment.stage is DeploymentStage.ROLLING_BACK
    if endpoint.phase not in IN_OPERATION or is_undone:
        return decided
    if topics.refusal and deployment is not None:
        return Plan((rollout.roll_back(deployment, topics.refusal),), now, topics.refusal)
    if topics.refusal:
        return Plan((GiveUp(endpoint.variants[0], topics.refusal),), now, topics.refusal)
    return _held(decided, topics.waiting, now) if topics.waiting else decided


def _held(decided: Plan, waiting: int, now: datetime) -> Plan:
    return replace(
        decided,
        actions=tuple(action for action in decided.actions if not isinstance(action, _HELD)),
        look_again_at=min(decided.look_again_at, now + timedelta(seconds=LOOK_SECONDS)),
        why=f"{decided.why} Still to be taken by their topics: {counted(waiting, 'test notification')}.".strip(),
    )
