"""The API's paths: the AWS door at the root, the resources under /api/v1/, the console, and the probes."""

from django.contrib import admin
from django.urls import include, path

from controlplane.config import operations, probes
from controlplane.config.static_files import static_file
from controlplane.config.views import aws_door, fault, unknown_path
from controlplane.gauges.views import metrics

OPERATIONS = operations.MODULES
"""Importing them registered every handler; named here so that the list is not taken for unused."""

urlpatterns = [
    path("", aws_door),
    path("service/<str:service>/operation/<str:operation>", aws_door),
    path("api/v1/", include("controlplane.rest.urls")),
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("metrics", metrics),
    path("admin/", admin.site.urls),
    path("static/<path:path>", static_file),
]

handler404 = unknown_path
handler500 = fault
