"""The members of a request to one of Headrace's own resources: checked whole, with every violation told at once."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from controlplane.core.errors import ValidationException
from controlplane.rest import strict

PAGE_DEFAULT, PAGE_LIMIT = 50, 500


class PagingQuery(serializers.Serializer):
    """A page of a list."""

    MaxResults = serializers.IntegerField(
        default=PAGE_DEFAULT, min_value=1, max_value=PAGE_LIMIT, help_text="The most that a page may hold."
    )
    NextToken = serializers.CharField(required=False, max_length=8192, help_text="From the page before.")


NEXT_TOKEN = "Gives the next page; null on the last."


def checked_query(request: Request, kind: type[serializers.Serializer]) -> dict[str, Any]:
    """The query's members; raises ValidationException or DRF's own for what makes no sense, unknown members included."""
    return _checked(strict.plain(request.query_params, kind()), kind)


def checked_body(request: Request, kind: type[serializers.Serializer]) -> dict[str, Any]:
    """The body's members, as `checked_query`; no body is an empty one."""
    members = request.data  # of no body, an empty object
    strict.refuse_other_types(kind(), members)
    return _checked(members, kind)


def _checked(members: Any, kind: type[serializers.Serializer]) -> dict[str, Any]:
    wish = kind(data=members)
    wish.is_valid(raise_exception=True)
    unknown = sorted(set(members) - set(wish.fields))
    if unknown:
        raise ValidationException(f"{', '.join(name[:64] for name in unknown)}: not known here.")
    found: dict[str, Any] = wish.validated_data
    return found
