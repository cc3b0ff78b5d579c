"""Whose story an orphan belongs to."""

import uuid

from django.conf import settings

from controlplane.auth.models import Installation
from controlplane.observability.events import Subject
from controlplane.orphans.models import Orphan


def installation() -> Subject:
    """The subject of events that tell of no endpoint: this control plane itself."""
    owner = Installation.objects.values_list("owner", flat=True).get()
    return Subject(settings.HEADRACE.account_id, "installation", uuid.uuid5(uuid.NAMESPACE_OID, owner), owner[:63])


def subject_of(orphan: Orphan) -> Subject:
    """The orphan's endpoint, or the installation where it has none."""
    if orphan.endpoint_id is None:
        return installation()
    return Subject(orphan.account_id, "endpoint", orphan.endpoint_id, orphan.endpoint_name)
