"""How the console looks and what its menu holds: the settings of django-unfold, which reads them as `settings.UNFOLD`."""

from django.templatetags.static import static

_BLUE = {
    "50": "oklch(97.5% .013 232)",
    "100": "oklch(94.6% .027 232)",
    "200": "oklch(89.6% .055 231)",
    "300": "oklch(82% .102 231)",
    "400": "oklch(74% .14 233)",
    "500": "oklch(66% .15 238)",
    "600": "oklch(52.5% .14 242)",
    "700": "oklch(48% .127 243)",
    "800": "oklch(42.5% .105 242)",
    "900": "oklch(38% .085 242)",
    "950": "oklch(28.5% .063 244)",
}

UNFOLD = {
    "SITE_TITLE": "Headrace",
    "SITE_HEADER": "Headrace",
    "SITE_SUBHEADER": "Inference control plane",
    "SITE_URL": "",
    "SITE_ICON": lambda request: static("console/headrace.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("console/headrace.svg")}],
    "STYLES": [lambda request: static("console/console.css")],
    "SCRIPTS": [lambda request: static("console/console.js")],
    "COLORS": {"primary": _BLUE},
    "BORDER_RADIUS": "6px",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "ENVIRONMENT": "controlplane.console.navigation.environment",
    "SIDEBAR": {
        "show_search": True,
        "command_search": True,
        "navigation": "controlplane.console.navigation.menu",
    },
    "LOGIN": {"form": "controlplane.console.login.LoginForm"},
    "COMMAND": {"search_callback": "controlplane.console.navigation.jump"},
}
