"""The console's own pages, under /admin/. Named in the site's namespace: `admin:capacity`."""

from django.contrib.admin import AdminSite
from django.urls import URLPattern, URLResolver, path

from controlplane.console import access_keys, capacity, endpoint_urls, events, front, orphans, tokens


def pages(site: AdminSite) -> list[URLPattern | URLResolver]:
    """Every page behind the site's door (`ConsoleSite.admin_view`)."""
    view = site.admin_view
    return [
        path("front/<slug:part>/", view(front.part), name="front_part"),
        path("events/", view(events.page), name="events"),
        path("events/list/", view(events.part), name="events_part"),
        path("capacity/", view(capacity.page), name="capacity"),
        path("capacity/board/", view(capacity.part), name="capacity_part"),
        path("capacity/set/", view(capacity.set_capacity), name="capacity_set"),
        path("capacity/marks/<int:mark_id>/clear/", view(capacity.clear_mark), name="capacity_clear"),
        path("orphans/", view(orphans.page), name="orphans"),
        path("orphans/list/", view(orphans.part), name="orphans_part"),
        path("orphans/confirm/", view(orphans.confirm), name="orphans_confirm"),
        path("orphans/<int:orphan_id>/end/", view(orphans.end), name="orphans_end"),
        path("orphans/<int:orphan_id>/adopt/", view(orphans.adopt), name="orphans_adopt"),
        path("access-keys/", view(access_keys.page), name="access_keys"),
        path("access-keys/create/", view(access_keys.create), name="access_keys_create"),
        path("access-keys/<str:access_key_id>/switch/", view(access_keys.switch), name="access_keys_switch"),
        path("access-keys/<str:access_key_id>/delete/", view(access_keys.delete), name="access_keys_delete"),
        path("tokens/", view(tokens.page), name="tokens"),
        path("tokens/create/", view(tokens.create), name="tokens_create"),
        path("tokens/<uuid:token_id>/revoke/", view(tokens.revoke), name="tokens_revoke"),
        *endpoint_urls.pages(site),
    ]
