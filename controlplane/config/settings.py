"""Django's settings, all from the environment (see `environment`)."""

import hashlib
from urllib.parse import unquote, urlsplit

from controlplane.config import theme
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
FORMAT_MODULE_PATH = ["controlplane.config.formats"]
STATIC_URL = "/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Bodies are capped by the gateway and by the wire view, with an error in the API's own form.
DATA_UPLOAD_MAX_MEMORY_SIZE = None
LOGIN_URL = "/admin/login/"
LOGIN_REDIRECT_URL = "/admin/"
APPEND_SLASH = False  # a POST must never be answered by a redirect

INSTALLED_APPS = [
    # The console's templates win over unfold's, and unfold's over the admin's.
    "controlplane.console",
    "unfold.apps.BasicAppConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "controlplane.console.apps.ConsoleAdminConfig",
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
    "drf_spectacular_sidecar",
    "controlplane.rest",
    "controlplane.embedded",
    "workers",
]

# The resource paths: errors in the wire's form; JSON, and pages for operators who are logged in.
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.rest.authentication.SigV4Authentication",
        "controlplane.rest.authentication.TokenAuthentication",
        "controlplane.rest.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.rest.permissions.MayAsk"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer", "controlplane.rest.browsable.PageRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "controlplane.rest.browsable.JsonUnlessLoggedIn",
    "DEFAULT_PARSER_CLASSES": ["controlplane.rest.parsers.BoundedJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "controlplane.rest.openapi.Schema",
    "EXCEPTION_HANDLER": "controlplane.rest.errors.answer",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Headrace",
    "VERSION": "1",
    "LICENSE": {"name": "Apache-2.0"},
    "SERVERS": [{"url": "/", "description": "This installation."}],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SERVE_INCLUDE_SCHEMA": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": ["controlplane.rest.openapi.complete"],
}

# The API door needs none of these; they serve the console alone (see `config.urls`).
MIDDLEWARE = [
    "controlplane.config.middleware.ConsoleOnly",
]

UNFOLD = theme.UNFOLD

# Behind a proxy that ends TLS the console is asked over plain HTTP. Which origin browsers see is said by the operator:
# headers such as X-Forwarded-Proto, which anybody can send, are never believed.
CSRF_TRUSTED_ORIGINS = [HEADRACE.public_url] if HEADRACE.public_url else []
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HEADRACE.public_url.startswith("https://")

# A shift. Counted from the login, not from the last request: pages refresh themselves, so that nobody is ever idle, and one
# left open in a browser would never end.
SESSION_COOKIE_AGE = 12 * 60 * 60

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

# What the processes count together and may lose: guesses of passwords. Whoever asks waits a second at most.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": HEADRACE.redis_url or "redis://127.0.0.1:6379/0",
        "KEY_PREFIX": "headrace-cache",
        "OPTIONS": {"socket_timeout": 1, "socket_connect_timeout": 1},
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "controlplane.core.one_line.LogLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    # A refused request is an answer, not an event of the server.
    "loggers": {"django.request": {"level": "ERROR"}},
    "root": {"handlers": ["stderr"], "level": HEADRACE.log_level},
}
