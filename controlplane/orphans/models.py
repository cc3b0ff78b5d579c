"""What the orphan sweep found, and whether it is held back."""

from datetime import datetime, timedelta

from django.db import models

from controlplane.fleet.overdue import is_end_overdue
from controlplane.orphans.states import OrphanState, OrphanWish


class Orphan(models.Model):
    """An instance that no endpoint has, known by its provider's id together with its launch time.

    `origin` says in one sentence what is known of the launch that made it, `reason` why it is in its state. The endpoint
    is named by id and name, not by a foreign key: it may be deleted. `hourly_price` is in US dollars, None where nobody
    knows it. `asked_at` is when its end was first asked for, `asked_last_at` when last, `asks` how often. `wish` is what
    an operator, `wished_by`, wants done about it and no worker has seen to yet.
    """

    provider = models.CharField(max_length=32)
    provider_id = models.CharField(max_length=128)
    launched_at = models.DateTimeField()
    token = models.CharField(max_length=64)
    instance_type = models.CharField(max_length=64)
    zone = models.CharField(max_length=64)
    market = models.CharField(max_length=16, default="on-demand")
    hourly_price = models.FloatField(null=True)
    origin = models.TextField(blank=True)
    account_id = models.CharField(max_length=12, blank=True)
    endpoint_id = models.UUIDField(null=True)
    endpoint_name = models.CharField(max_length=63, blank=True)
    found_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=OrphanState.choices, default=OrphanState.FOUND)
    state_since = models.DateTimeField()
    reason = models.TextField(blank=True)
    asked_at = models.DateTimeField(null=True)
    asked_last_at = models.DateTimeField(null=True)
    asks = models.PositiveIntegerField(default=0)
    overdue_told_at = models.DateTimeField(null=True)
    wish = models.CharField(max_length=8, choices=OrphanWish.choices, blank=True, default=OrphanWish.NONE)
    wished_at = models.DateTimeField(null=True)
    wished_by = models.CharField(max_length=160, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["provider", "provider_id", "launched_at"], name="orphan_identity")]
        indexes = [
            models.Index(fields=["state", "launched_at"], name="orphan_by_state"),
            models.Index(fields=["wished_at"], condition=~models.Q(wish=""), name="orphan_wished"),
        ]

    def __str__(self) -> str:
        return f"{self.instance_type} {self.provider_id}"

    def is_overdue(self, now: datetime) -> bool:
        """Whether its end was asked for so long ago that somebody should look."""
        return self.state == OrphanState.ENDING and self.asked_at is not None and is_end_overdue(self.asked_at, now)

    def cost(self, now: datetime) -> float | None:
        """What it has cost since its launch, in US dollars; None where nobody knows its price.

        An adopted instance costs its endpoint from its adoption on.
        """
        if self.hourly_price is None:
            return None
        has_ended = self.state in (OrphanState.GONE, OrphanState.ADOPTED)
        lived = (self.state_since if has_ended else now) - self.launched_at
        return self.hourly_price * max(lived / timedelta(hours=1), 0.0)


class Sweep(models.Model):
    """The one row of what the orphan sweep remembers.

    `held_since` is since when it only reports because the database looks older than the instances; `confirmed_at` is the
    last time an operator confirmed that what it found are orphans: instances launched before that hold nothing back.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    held_since = models.DateTimeField(null=True)
    held_why = models.TextField(blank=True)
    told_at = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_sweep")]
