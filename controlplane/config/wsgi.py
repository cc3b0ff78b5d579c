"""The WSGI callable of the API process. WSGI, since the same view answers several times faster than under ASGI."""

import os

from django.core.wsgi import get_wsgi_application

from controlplane.observability import database_clock

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
application = get_wsgi_application()
database_clock.use()
