"""`/api/v1/access-keys`: the key pairs that sign for the account."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.auth import access_keys
from controlplane.auth.models import AccessKey
from controlplane.core import clock
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_body, checked_query
from controlplane.rest.paging import page
from controlplane.rest.schema import ERROR


class AccessKeySerializer(serializers.Serializer):
    """An access key; its secret is not told again."""

    AccessKeyId = serializers.CharField(source="access_key_id")
    IsActive = serializers.BooleanField(source="is_active", help_text="One that is not signs nothing.")
    IsBootstrap = serializers.SerializerMethodField(help_text="Whether the settings name it: then they alone change it.")
    CreatedAt = serializers.DateTimeField(source="created_at")

    def get_IsBootstrap(self, key: AccessKey) -> bool:
        return access_keys.is_bootstrap(key)


class NewAccessKeySerializer(AccessKeySerializer):
    """A key just made, with its secret, which is shown this once."""

    SecretAccessKey = serializers.CharField(source="secret", help_text="Shown this once.")


class AccessKeyPage(serializers.Serializer):
    """A page of access keys."""

    AccessKeys = AccessKeySerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)


class AccessKeyChange(serializers.Serializer):
    """What is to become of a key."""

    IsActive = serializers.BooleanField(help_text="Whether it may sign.")


class NoMembers(serializers.Serializer):
    """A request that says nothing more."""


class AccessKeysView(APIView):
    """The account's keys."""

    is_administration = True

    @extend_schema(
        operation_id="ListAccessKeys", parameters=[PagingQuery], responses={200: AccessKeyPage, "default": ERROR}
    )
    def get(self, request: Request) -> Response:
        """List the account's access keys by their ids."""
        members, account_id = checked_query(request, PagingQuery), request.user.account_id
        keys = access_keys.listed(account_id)
        found = page(keys, f"access-keys {account_id}", members, key="access_key_id", latest=False)
        return Response(AccessKeyPage({"AccessKeys": found.rows, "NextToken": found.next_token}).data)

    @extend_schema(operation_id="CreateAccessKey", request=None, responses={201: NewAccessKeySerializer, "default": ERROR})
    def post(self, request: Request) -> Response:
        """Make a key pair that signs for the account, as an administrator of it. Its secret is shown this once."""
        checked_body(request, NoMembers)
        key, secret = access_keys.create(request.user.account_id, clock.now())
        key.secret = secret
        return Response(NewAccessKeySerializer(key).data, status=201, headers={"Cache-Control": "no-store"})


class AccessKeyView(APIView):
    """One key."""

    is_administration = True

    @extend_schema(operation_id="DescribeAccessKey", responses={200: AccessKeySerializer, "default": ERROR})
    def get(self, request: Request, access_key_id: str) -> Response:
        """Tell how a key stands."""
        return Response(AccessKeySerializer(access_keys.get(request.user.account_id, access_key_id)).data)

    @extend_schema(
        operation_id="UpdateAccessKey",
        request=AccessKeyChange,
        responses={200: AccessKeySerializer, "default": ERROR},
    )
    def put(self, request: Request, access_key_id: str) -> Response:
        """Switch a key off or on again. The last active one of an account stays on: make another first."""
        is_active = checked_body(request, AccessKeyChange)["IsActive"]
        account_id, now = request.user.account_id, clock.now()
        return Response(
            AccessKeySerializer(access_keys.set_active(account_id, access_key_id, is_active=is_active, now=now)).data
        )

    @extend_schema(operation_id="DeleteAccessKey", responses={204: None, "default": ERROR})
    def delete(self, request: Request, access_key_id: str) -> Response:
        """Delete a key for good. The last active one of an account stays: make another first."""
        access_keys.delete(request.user.account_id, access_key_id, clock.now())
        return Response(status=204)
