"""Asynchronous invocations, their payloads, and the messages that tell of their outcomes.

    QUEUED ----> RUNNING ----> COMPLETED
      ^  |         |  |
      |  |         |  +------> FAILED <-----+
      |  |         v                        |
      |  |   (lease expired, or a fault     |
      |  |    worth another try)            |
      |  +-------> EXPIRED (its time in the queue ran out) | FAILED (endpoint deleted)
      +------------+                        |
      |                                     |
    REDRIVING (its old failure object is being removed) <---- FAILED | EXPIRED

    RUNNING ----> CANCELLED (decided before, while it was queued, running or redriving, and told as a failure is)

Rows are written by the gateway with plain SQL (`accept`), so every column is named there and none relies on a default.
The payload has a table of its own, so that scans of the queue stay narrow. It is dropped with the row's completion or
cancellation; what failed or expired keeps it until retention, since whoever redrives it needs it.
"""

from django.db import models


class InvocationState(models.TextChoices):
    """See the graph in the module docstring."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REDRIVING = "redriving"


ENDED = (InvocationState.COMPLETED, InvocationState.FAILED, InvocationState.EXPIRED, InvocationState.CANCELLED)
DEAD = (InvocationState.FAILED, InvocationState.EXPIRED)
"""Ended without an answer: the dead letters, which may be redriven."""


class FailureKind(models.TextChoices):
    """The class of a failure: who or what was at fault; blank while there is none."""

    MODEL_CLIENT_ERROR = "model_client_error"
    MODEL_SERVER_ERROR = "model_server_error"
    NO_ANSWER = "no_answer"
    TIMEOUT = "timeout"
    INPUT_MISSING = "input_missing"
    INPUT_REFUSED = "input_refused"
    INPUT_TOO_LARGE = "input_too_large"
    OUTPUT_STORE = "output_store"
    EXPIRED = "expired"
    ENDPOINT_DELETED = "endpoint_deleted"
    ABANDONED = "abandoned"
    CANCELLED = "cancelled"


class AsyncInvocation(models.Model):
    """One accepted request: what was asked, who works on it until when, and how it ended.

    `endpoint_id` is no foreign key: an endpoint deleted and made again under the same name has another id, so it never
    runs the old one's requests. `input_location` is where the payload is, blank where it came inline. `delivery` is what
    else the endpoint said of the outcome when the request was accepted (see `invocations.delivery`). `due_at` is when the
    next attempt may start. `instance_id` is the instance whose slot it holds: none once the model has answered.
    `is_storing` is set before the output object is written, so that whoever resumes looks for it before running the model
    again. `outcome_text` and `failure_kind` are the failure, decided durably before the failure object is written.

    `redriven_at` is when it was put back for the last time, null if never: its wait and its time to live begin then.
    `timeline` lists the steps since acceptance, each `[time in ISO 8601, step, attempt, detail]` (see
    `invocations.steps`); each is appended by the UPDATE that makes it true. `redrives` counts how often
    it was put back after it had failed.
    """

    id = models.UUIDField(primary_key=True)
    account_id = models.CharField(max_length=12)
    endpoint_id = models.UUIDField()
    endpoint_name = models.CharField(max_length=63)
    variant_name = models.CharField(max_length=63, blank=True)
    inference_id = models.CharField(max_length=64)
    content_type = models.CharField(max_length=1024, blank=True)
    accept = models.CharField(max_length=1024, blank=True)
    custom_attributes = models.CharField(max_length=1024, blank=True)
    input_location = models.CharField(max_length=1024, blank=True)
    state = models.CharField(max_length=16, choices=InvocationState.choices)
    accepted_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    timeout_seconds = models.PositiveIntegerField()
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField()
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    instance_id = models.UUIDField(null=True)
    output_location = models.CharField(max_length=2048)
    failure_location = models.CharField(max_length=2048, blank=True)
    delivery = models.JSONField(default=dict)
    is_storing = models.BooleanField(default=False)
    outcome_text = models.TextField(blank=True)
    failure_kind = models.CharField(max_length=24, choices=FailureKind.choices, blank=True)
    timeline = models.JSONField(default=list)
    redrives = models.PositiveIntegerField(default=0)
    redriven_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["endpoint_id", "due_at", "accepted_at"],
                name="invocation_queue",
                condition=models.Q(state="queued"),
            ),
            models.Index(fields=["endpoint_id"], name="invocation_leases", condition=models.Q(state="running")),
            models.Index(fields=["expires_at"], name="invocation_expiry", condition=models.Q(state="queued")),
            models.Index(
                fields=["due_at"],
                name="invocation_decided",
                condition=models.Q(state="queued") & ~models.Q(failure_kind=""),
            ),
            models.Index(fields=["due_at"], name="invocation_redriving", condition=models.Q(state="redriving")),
            models.Index(
                fields=["account_id", "endpoint_name", "state", "failure_kind", "accepted_at", "id"],
                name="invocation_search",
            ),
            models.Index(fields=["account_id", "inference_id", "accepted_at", "id"], name="invocation_by_inference_id"),
            models.Index(fields=["ended_at"], name="invocation_ended", condition=models.Q(ended_at__isnull=False)),
            models.Index(fields=["ended_at"], name="invocation_dead", condition=models.Q(state__in=["failed", "expired"])),
        ]


class AsyncPayload(models.Model):
    """The inline body of a request (at most 128,000 bytes); none where the request has an `input_location`.

    Written by the statement that writes the request, so the database need not look for it a second time: no constraint.
    """

    invocation = models.OneToOneField(AsyncInvocation, on_delete=models.CASCADE, primary_key=True, db_constraint=False)
    body = models.BinaryField()


class NotificationKind(models.TextChoices):
    """Why a message is sent: a request has ended, or an endpoint's topics are tried."""

    RESULT = "result"
    TEST = "test"


class AsyncNotification(models.Model):
    """The outbox: a message for an SNS topic, written in the transaction that makes it true, and gone once it was sent.

    A result's message is of `invocation_id`; a test's is of its endpoint alone, for which a later change writes others.
    What nobody took is `given_up_at`, with the last error, until retention.
    """

    invocation_id = models.UUIDField(null=True)
    account_id = models.CharField(max_length=12)
    endpoint_id = models.UUIDField()
    endpoint_name = models.CharField(max_length=63)
    variant_name = models.CharField(max_length=63, blank=True)
    kind = models.CharField(max_length=8, choices=NotificationKind.choices)
    topic = models.CharField(max_length=2048)
    message = models.TextField()
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True)
    given_up_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="notification_due", condition=models.Q(given_up_at=None)),
            models.Index(fields=["endpoint_id"], name="notification_tests", condition=models.Q(kind="test")),
            models.Index(
                fields=["given_up_at"], name="notification_given_up", condition=models.Q(given_up_at__isnull=False)
            ),
        ]
