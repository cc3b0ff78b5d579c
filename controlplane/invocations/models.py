"""Asynchronous invocations and their payloads.

    QUEUED ----> RUNNING ----> COMPLETED
      ^  |         |  |
      |  |         |  +------> FAILED
      |  |         v
      |  |   (lease expired, or a fault worth another try)
      |  +-------> EXPIRED (its time in the queue ran out) | FAILED (endpoint deleted)
      +------------+

Rows are written by the gateway with plain SQL (`accept`), so every column is named there and none relies on a default.
The payload has a table of its own, so that scans of the queue stay narrow.
"""

from django.db import models


class InvocationState(models.TextChoices):
    """See the graph in the module docstring."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"


ENDED = (InvocationState.COMPLETED, InvocationState.FAILED, InvocationState.EXPIRED)


class AsyncInvocation(models.Model):
    """One accepted request: what was asked, who works on it until when, and how it ended.

    `endpoint_id` is no foreign key: an endpoint deleted and made again under the same name has another id, so it never
    runs the old one's requests. `due_at` is when the next attempt may start. `is_storing` is set before the output
    object is written, so that whoever resumes looks for it before running the model again. `outcome_text` is the
    failure text, decided durably before the failure object is written.
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
    is_storing = models.BooleanField(default=False)
    outcome_text = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["endpoint_id", "due_at", "accepted_at"],
                name="invocation_queue",
                condition=models.Q(state="queued"),
            ),
            models.Index(fields=["lease_expires_at"], name="invocation_leases", condition=models.Q(state="running")),
            models.Index(fields=["expires_at"], name="invocation_expiry", condition=models.Q(state="queued")),
            models.Index(fields=["account_id", "inference_id"], name="invocation_by_inference_id"),
        ]


class AsyncPayload(models.Model):
    """The inline body of a request (at most 128,000 bytes); deleted when the request has ended."""

    invocation = models.OneToOneField(AsyncInvocation, on_delete=models.CASCADE, primary_key=True)
    body = models.BinaryField()
