"""The paths of the pages of endpoints and of asynchronous requests, for `console.urls`."""

from django.contrib.admin import AdminSite
from django.urls import URLPattern, path, re_path

from controlplane.console import endpoint_bulk, endpoint_views, requests_views

INSTANCE = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
ENDPOINT = r"endpoints/(?P<account_id>[0-9]{12})/(?P<name>[a-zA-Z0-9-]{1,63})/"


def pages(site: AdminSite) -> list[URLPattern]:
    """Every page behind the site's door."""
    view = site.admin_view
    return [
        path("endpoints/", view(endpoint_views.index), name="endpoints"),
        path("endpoints/rows/", view(endpoint_views.rows), name="endpoint_rows"),
        path("endpoints/delete/", view(endpoint_bulk.delete), name="endpoints_delete"),
        re_path(rf"^{ENDPOINT}$", view(endpoint_views.page), name="endpoint"),
        re_path(rf"^{ENDPOINT}part/(?P<part>[a-z]+)/$", view(endpoint_views.part), name="endpoint_part"),
        re_path(
            rf"^{ENDPOINT}instances/(?P<instance_id>{INSTANCE})/(?P<action>[a-z]+)/$",
            view(endpoint_views.act_on_instance),
            name="instance_action",
        ),
        re_path(
            rf"^{ENDPOINT}marks/(?P<mark_id>[0-9]{{1,18}})/clear/$", view(endpoint_views.clear_mark), name="mark_clear"
        ),
        re_path(rf"^{ENDPOINT}(?P<action>[a-z-]+)/$", view(endpoint_views.act), name="endpoint_action"),
        path("requests/", view(requests_views.index), name="requests"),
        path("requests/dead/", view(requests_views.dead), name="dead_letters"),
        path("requests/dead/part/", view(requests_views.dead_part), name="dead_letters_part"),
        re_path(
            r"^requests/dead/(?P<account_id>[0-9]{12})/(?P<name>[a-zA-Z0-9-]{1,63})/redrive/$",
            view(requests_views.redrive_class),
            name="dead_letters_redrive",
        ),
        path("requests/<uuid:request_id>/", view(requests_views.page), name="request"),
        path("requests/<uuid:request_id>/part/", view(requests_views.part), name="request_part"),
        path("requests/<uuid:request_id>/<slug:action>/", view(requests_views.act), name="request_action"),
    ]
