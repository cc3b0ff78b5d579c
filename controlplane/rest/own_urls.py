"""The paths of Headrace's own resources that belong to no endpoint: who may call, what is to be had, what it costs."""

from django.urls import path, re_path

from controlplane.rest import security_schemes
from controlplane.rest.access_keys import AccessKeysView, AccessKeyView
from controlplane.rest.events import EventsView
from controlplane.rest.index import IndexView
from controlplane.rest.instance_types import InstanceTypePriceView, InstanceTypesView, InstanceTypeView
from controlplane.rest.orphans import AdoptOrphanView, ConfirmOrphansView, EndOrphanView, OrphansView, OrphanView
from controlplane.rest.quotas import QuotasView, QuotaView
from controlplane.rest.simulated_capacity import SimulatedCapacitiesView, SimulatedCapacityView
from controlplane.rest.spend import SpendView
from controlplane.rest.tokens import ApiTokensView, ApiTokenView

SECURITY_SCHEMES = security_schemes
"""Importing them registered them; named here so that the import is not taken for unused."""

TYPE = r"(?P<instance_type>ml\.[A-Za-z0-9.-]{1,60})"
KEY = r"(?P<access_key_id>[A-Za-z0-9_]{1,128})"

urlpatterns = [
    path("", IndexView.as_view()),
    path("access-keys", AccessKeysView.as_view()),
    re_path(rf"^access-keys/{KEY}$", AccessKeyView.as_view()),
    path("tokens", ApiTokensView.as_view()),
    path("tokens/<uuid:token_id>", ApiTokenView.as_view()),
    path("events", EventsView.as_view()),
    path("orphans", OrphansView.as_view()),
    path("orphans/confirm", ConfirmOrphansView.as_view()),
    path("orphans/<int:orphan_id>", OrphanView.as_view()),
    path("orphans/<int:orphan_id>/end", EndOrphanView.as_view()),
    path("orphans/<int:orphan_id>/adopt", AdoptOrphanView.as_view()),
    path("instance-types", InstanceTypesView.as_view()),
    re_path(rf"^instance-types/{TYPE}$", InstanceTypeView.as_view()),
    re_path(rf"^instance-types/{TYPE}/price$", InstanceTypePriceView.as_view()),
    path("simulated-capacity", SimulatedCapacitiesView.as_view()),
    re_path(rf"^simulated-capacity/{TYPE}$", SimulatedCapacityView.as_view()),
    path("quotas", QuotasView.as_view()),
    re_path(r"^quotas/(?P<name>total|ml\.[A-Za-z0-9.-]{1,60})$", QuotaView.as_view()),
    path("spend", SpendView.as_view()),
]
