"""Style sheets, scripts and fonts of the console, from the packages that bring them: nothing has to be collected."""

from django.contrib.staticfiles.views import serve
from django.http import HttpRequest, HttpResponse
from django.views.decorators.gzip import gzip_page

SECONDS = 300
"""How long a browser does without asking again; after an upgrade the old ones are gone as soon."""

COMPRESSED_ALREADY = (".woff2", ".woff", ".png", ".jpg")

_text = gzip_page(serve)


def static_file(request: HttpRequest, path: str) -> HttpResponse:
    """One file, by Django's own finders; fast enough for the few that a page has."""
    view = serve if path.endswith(COMPRESSED_ALREADY) else _text
    response: HttpResponse = view(request, path, insecure=True)
    response["Cache-Control"] = f"public, max-age={SECONDS}"
    return response
