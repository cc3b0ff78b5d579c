"""Events, heartbeats, and what the providers offer."""

from django.db import models

from controlplane.core.actor import HEADRACE


class Event(models.Model):
    """One thing that happened or was decided, in one sentence for humans. Never changed, never updated.

    `reason` is a CamelCase word for machines (`PoolRefused`), `detail` the inputs of the rule that fired. Events outlive
    the resource they tell of: they are keyed by its id and name, not by a foreign key. `actor` is who did it.
    """

    at = models.DateTimeField()
    account_id = models.CharField(max_length=12)
    subject_kind = models.CharField(max_length=32)
    subject_id = models.UUIDField()
    subject_name = models.CharField(max_length=63)
    reason = models.CharField(max_length=64)
    sentence = models.TextField()
    detail = models.JSONField(default=dict)
    actor = models.CharField(max_length=160, db_default=HEADRACE)

    class Meta:
        indexes = [
            models.Index(fields=["subject_id", "id"], name="event_by_subject"),
            models.Index(fields=["account_id", "subject_name", "id"], name="event_by_name"),
            models.Index(fields=["account_id", "id"], name="event_by_account"),
            models.Index(fields=["at"], name="event_by_time"),
            models.Index(fields=["reason", "id"], name="event_by_reason"),
            # Almost all is done by Headrace itself; what others did is what is looked for.
            models.Index(fields=["actor", "id"], condition=~models.Q(actor=HEADRACE), name="event_by_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.reason}: {self.sentence}"


class Heartbeat(models.Model):
    """When a process last said that it makes progress; written by the loop that does the work, not by a side thread."""

    pk = models.CompositePrimaryKey("role", "process_id")
    role = models.CharField(max_length=32)
    process_id = models.CharField(max_length=128)
    seen_at = models.DateTimeField()


class ProviderReport(models.Model):
    """What a capacity provider offers, as it last said; written by the scheduler, since only the workers know providers.

    `free` maps zone -> instance type -> free slots, `otherwise` holds for every other type. Both are None for a provider
    that does not say (no cloud does).
    """

    provider = models.CharField(max_length=32, primary_key=True)
    zones = models.JSONField()
    markets = models.JSONField()
    free = models.JSONField(null=True)
    otherwise = models.PositiveIntegerField(null=True)
    seen_at = models.DateTimeField()


class CapacitySetting(models.Model):
    """How many instances of a type may live at once in a provider that lets itself be told: a shortage is rehearsed.

    The intent is the row; the scheduler tells the provider, sets `applied_at`, and says in `failure` why it could not.
    """

    provider = models.CharField(max_length=32)
    instance_type = models.CharField(max_length=64)
    slots = models.PositiveIntegerField()
    account_id = models.CharField(max_length=12)
    set_at = models.DateTimeField()
    set_by = models.CharField(max_length=160)
    applied_at = models.DateTimeField(null=True)
    failure = models.TextField(blank=True)

    class Meta:
        ordering = ["instance_type"]
        constraints = [models.UniqueConstraint(fields=["provider", "instance_type"], name="capacity_setting_key")]
        indexes = [
            models.Index(fields=["provider"], condition=models.Q(applied_at=None), name="capacity_setting_open"),
        ]
