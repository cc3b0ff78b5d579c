"""The three credentials in the OpenAPI document: `sigv4`, `token`, `session`. Importing this module registers them."""

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

ACCOUNT = "Callers of the installation's own account may speak for another, which the header Headrace-Account names."


class SigV4Scheme(OpenApiAuthenticationExtension):
    """The Authorization header of Signature Version 4."""

    target_class = "controlplane.rest.authentication.SigV4Authentication"
    name = "sigv4"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": f"AWS Signature Version 4, service sagemaker, in the region of the installation. {ACCOUNT}",
            "x-amazon-apigateway-authtype": "awsSigv4",
        }


class TokenScheme(OpenApiAuthenticationExtension):
    """API tokens."""

    target_class = "controlplane.rest.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "hr_...",
            "description": f"An API token, from CreateApiToken or `manage.py api_token`. {ACCOUNT}",
        }


class SessionScheme(OpenApiAuthenticationExtension):
    """The cookie of an operator who is logged in to the console."""

    target_class = "controlplane.rest.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": f"The session of the console. Changes need the header X-CSRFToken too. {ACCOUNT}",
        }
