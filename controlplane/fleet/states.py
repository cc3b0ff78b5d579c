"""The stages of an instance and of a launch attempt.

    instance    PENDING ----> STARTING ----> READY ----> DRAINING ----> TERMINATING ----> TERMINATED
                   |              |            |                            ^    |            ^
                   +--------------+------------+----------------------------+    |            |
                   |              |            |                            +----+ (asked     |
                   +--------------+------------+--- (the provider lost it) ------- again) ----+

(PENDING may go to READY at once, when the address and the first good /ping are seen together.)

PENDING: the provider has it, no address yet. STARTING: it has an address, /ping is not 200 yet. READY: it is routed to.
DRAINING: no new calls, those under way may end. TERMINATING: its end was asked for, and is asked for again until the
provider no longer knows it. TERMINATED: gone.

    attempt     INTENDED ----> SUCCEEDED
                    |  \\----> REFUSED
                    v
                AMBIGUOUS ---> SUCCEEDED | ABSENT
                    ^
                    +--------- REFUSED | ABSENT (the sweep found its instance after all, and it is wanted)

An open attempt (INTENDED, AMBIGUOUS) counts as an instance until the provider was asked about its token.
"""

from django.db import models


class InstanceStage(models.TextChoices):
    """See the graph in the module docstring."""

    PENDING = "pending"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class Leave(models.TextChoices):
    """How an operator wants an instance gone; blank: not at all. The planner does it (`workers.fleet.plan`).

    DRAIN: at once, so that the fleet is one short until a replacement serves. REPLACE: only once a replacement serves;
    while the endpoint is being created or changed, after that.
    """

    DRAIN = "drain"
    REPLACE = "replace"


class AttemptStage(models.TextChoices):
    """See the graph in the module docstring."""

    INTENDED = "intended"
    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    AMBIGUOUS = "ambiguous"
    ABSENT = "absent"


WANTED_STAGES = (InstanceStage.PENDING, InstanceStage.STARTING, InstanceStage.READY)
"""Stages of an instance that serves or is about to."""

LEAVING_STAGES = (InstanceStage.DRAINING, InstanceStage.TERMINATING)
"""Stages of an instance on its way out, which the provider may still hold."""

OPEN_ATTEMPTS = (AttemptStage.INTENDED, AttemptStage.AMBIGUOUS)
LIVE_STAGES = (
    InstanceStage.PENDING,
    InstanceStage.STARTING,
    InstanceStage.READY,
    InstanceStage.DRAINING,
    InstanceStage.TERMINATING,
)
"""Stages in which the provider may still hold the instance."""
