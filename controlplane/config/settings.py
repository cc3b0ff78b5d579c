"""Django's settings, all from the environment (see `environment`)."""

import hashlib
from urllib.parse import unquote, urlsplit

from controlplane.config.environment import Environment

HEADRACE = Environment.read()

# Django signs sessions with a key of its own, so that leaking one purpose's key does not open the other.
SECRET_KEY = hashlib.sha256(b"django:" + (HEADRACE.secret_key or "not-configured").encode()).hexdigest()
DEBUG = False
ALLOWED_HOSTS = ["*"]  # the gateway is in front; requests are authenticated by signature, which covers the host
ROOT_URLCONF = "controlplane.config.urls"
WSGI_APPLICATION = "controlplane.config.wsgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False
STATIC_URL = "/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Bodies are capped by the gateway and by the wire view, with an error in the API's own form.
DATA_UPLOAD_MAX_MEMORY_SIZE = None
APPEND_SLASH = False  # a POST must never be answered by a redirect

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.admin",
    "controlplane.auth",
    "controlplane.observability",
    "controlplane.metrics",
    "controlplane.catalog",
    "controlplane.endpoints",
    "controlplane.fleet",
    "controlplane.orphans",
    "controlplane.routing",
    "controlplane.invocations",
    "rest_framework",
    "drf_spectacular",
    "controlplane.rest",
    "controlplane.embedded",
    "controlplane.console",
    "workers",
]

# The resource paths: JSON only, signed, errors in the wire's form.
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["controlplane.rest.authentication.SigV4Authentication"],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.rest.authentication.IsSigned"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.rest.parsers.BoundedJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "controlplane.rest.errors.answer",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Headrace",
    "DESCRIPTION": "What Headrace tells and takes beyond the API it speaks: previews, explanations, events, memory.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SERVE_INCLUDE_SCHEMA": False,
}

# The API door needs none of these; they serve the console alone (see `config.urls`).
MIDDLEWARE = [
    "controlplane.config.middleware.ConsoleOnly",
]

# The admin looks for these by name; `ConsoleOnly` has them.
SILENCED_SYSTEM_CHECKS = ["admin.E408", "admin.E409", "admin.E410"]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def _database(url: str) -> dict[str, object]:
    """Django's form of a postgresql:// URL."""
    parts = urlsplit(url or "postgresql://headrace@127.0.0.1:5432/headrace")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/") or "headrace",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "127.0.0.1",
        "PORT": str(parts.port or 5432),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            # A transaction left idle is a hung process; the database ends it rather than let it hold its locks.
            "options": "-c statement_timeout=30000 -c idle_in_transaction_session_timeout=30000",
        },
    }


DATABASES = {"default": _database(HEADRACE.database_url)}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    # A refused request is an answer, not an event of the server.
    "loggers": {"django.request": {"level": "ERROR"}},
    "root": {"handlers": ["stderr"], "level": HEADRACE.log_level},
}
