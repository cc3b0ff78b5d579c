"""The API's paths: the AWS door at the root, the resources under /api/v1/, the console, and the probes."""

from django.contrib import admin
from django.contrib.staticfiles.views import serve
from django.urls import include, path

from controlplane.config import operations, probes
from controlplane.config.views import aws_door, fault, unknown_path

OPERATIONS = operations.MODULES
"""Importing them registered every handler; named here so that the list is not taken for unused."""

urlpatterns = [
    path("", aws_door),
    path("service/<str:service>/operation/<str:operation>", aws_door),
    path("api/v1/", include("controlplane.rest.urls")),
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("admin/", admin.site.urls),
    # The console's few style sheets; Django's own finder is fast enough for them and needs no collecting.
    path("static/<path:path>", serve, {"insecure": True}),
]

handler404 = unknown_path
handler500 = fault
