"""How the OpenAPI schema tells of what DRF does not know: the signature, and the form of errors."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

ERROR = inline_serializer(
    "Error",
    {
        "__type": serializers.CharField(help_text="The error's code, also in the header x-amzn-ErrorType."),
        "message": serializers.CharField(help_text="What went wrong, in words."),
    },
)
"""Every answer other than success."""


class SigV4Scheme(OpenApiAuthenticationExtension):
    """The Authorization header of Signature Version 4."""

    target_class = "controlplane.rest.authentication.SigV4Authentication"
    name = "sigv4"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "AWS Signature Version 4, service sagemaker, in the region of the installation.",
            "x-amazon-apigateway-authtype": "awsSigv4",
        }
