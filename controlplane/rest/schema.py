"""How the OpenAPI schema tells of what DRF does not know: the form of errors."""

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

ERROR = inline_serializer(
    "ResourceError",
    {
        "__type": serializers.CharField(help_text="The error's code, also in the header x-amzn-ErrorType."),
        "message": serializers.CharField(help_text="What went wrong, in words."),
    },
)
"""Every answer other than success."""
