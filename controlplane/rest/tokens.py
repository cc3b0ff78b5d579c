"""`/api/v1/tokens`: API tokens, for people and programs that do not sign."""

from uuid import UUID

from django.contrib.auth import get_user_model
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.auth import tokens
from controlplane.auth.models import ApiToken
from controlplane.auth.roles import ROLES, Role
from controlplane.core import clock
from controlplane.core.errors import AccessDeniedException, ValidationException
from controlplane.rest.caller import Caller
from controlplane.rest.members import NEXT_TOKEN, PagingQuery, checked_body, checked_query
from controlplane.rest.paging import page
from controlplane.rest.schema import ERROR


class ApiTokenSerializer(serializers.Serializer):
    """A token; its secret is not told again."""

    TokenId = serializers.UUIDField(source="id")
    Name = serializers.CharField(source="name")
    Role = serializers.SerializerMethodField(help_text="What it may do: viewer, operator or administrator.")
    Prefix = serializers.CharField(source="prefix", help_text="How its secret begins.")
    Operator = serializers.CharField(
        source="user.username", default=None, allow_null=True, help_text="Whose it is; it ends with them. Null: nobody's."
    )
    Status = serializers.SerializerMethodField(help_text="Active, Expired or Revoked.")
    CreatedAt = serializers.DateTimeField(source="created_at")
    CreatedBy = serializers.CharField(source="created_by")
    ExpiresAt = serializers.DateTimeField(source="expires_at")
    LastUsedAt = serializers.DateTimeField(source="last_used_at", allow_null=True, help_text="Exact to the minute.")
    RevokedAt = serializers.DateTimeField(source="revoked_at", allow_null=True)

    def get_Role(self, token: ApiToken) -> str:
        return Role(token.role).group

    def get_Status(self, token: ApiToken) -> str:
        return tokens.state(token, clock.now()).capitalize()


class NewApiTokenSerializer(ApiTokenSerializer):
    """A token just made, with its secret, which is shown this once."""

    Secret = serializers.CharField(source="secret", help_text="Goes behind `Authorization: Bearer`. Shown this once.")


class ApiTokenPage(serializers.Serializer):
    """A page of tokens."""

    Tokens = ApiTokenSerializer(many=True)
    NextToken = serializers.CharField(allow_null=True, help_text=NEXT_TOKEN)


class ApiTokenRequest(serializers.Serializer):
    """The token that is wanted."""

    Name = serializers.CharField(max_length=63, help_text="What it is for, such as ci.")
    Role = serializers.ChoiceField(choices=list(ROLES), default=Role.VIEWER.group, help_text="What it may do.")
    Days = serializers.IntegerField(
        default=tokens.DEFAULT_DAYS, min_value=1, max_value=tokens.MOST_DAYS, help_text="How long it is good for."
    )
    Operator = serializers.CharField(
        required=False,
        max_length=150,
        help_text="The operator whose it is: it never has more rights than they have, and ends with them.",
    )


class ApiTokensView(APIView):
    """The account's tokens."""

    is_administration = True

    @extend_schema(operation_id="ListApiTokens", parameters=[PagingQuery], responses={200: ApiTokenPage, "default": ERROR})
    def get(self, request: Request) -> Response:
        """List the account's tokens by their ids, ended ones too."""
        members, account_id = checked_query(request, PagingQuery), request.user.account_id
        found = page(tokens.listed(account_id), f"tokens {account_id}", members, latest=False)
        return Response(ApiTokenPage({"Tokens": found.rows, "NextToken": found.next_token}).data)

    @extend_schema(
        operation_id="CreateApiToken",
        request=ApiTokenRequest,
        responses={201: NewApiTokenSerializer, "default": ERROR},
    )
    def post(self, request: Request) -> Response:
        """Make a token that speaks for the account on these paths. Its secret is shown this once."""
        members = checked_body(request, ApiTokenRequest)
        user = _operator(members.get("Operator"), request.user)
        role, account_id = ROLES[members["Role"]], request.user.account_id
        token, secret = tokens.create(account_id, members["Name"], role, now=clock.now(), days=members["Days"], user=user)
        token.secret = secret
        return Response(NewApiTokenSerializer(token).data, status=201, headers={"Cache-Control": "no-store"})


class ApiTokenView(APIView):
    """One token."""

    is_administration = True

    @extend_schema(operation_id="DescribeApiToken", responses={200: ApiTokenSerializer, "default": ERROR})
    def get(self, request: Request, token_id: UUID) -> Response:
        """Tell how a token stands."""
        return Response(ApiTokenSerializer(tokens.get(request.user.account_id, token_id)).data)

    @extend_schema(operation_id="RevokeApiToken", responses={204: None, "default": ERROR})
    def delete(self, request: Request, token_id: UUID) -> Response:
        """End a token at once and for good. It stays in the list, as revoked."""
        tokens.revoke(request.user.account_id, token_id, clock.now())
        return Response(status=204)


def _operator(name: str | None, caller: Caller) -> object:
    """The operator of this name; who operates the installation is not a tenant's to find out."""
    if name is None:
        return None
    if not caller.is_installation:
        raise AccessDeniedException("Operator is for administrators of the installation's own account.")
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise ValidationException(f"There is no operator {name!r}.")
    return user
