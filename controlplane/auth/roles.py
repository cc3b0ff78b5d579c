"""What an operator or a token may do.

    viewer          reads everything
    operator        + changes endpoints, capacity marks and asynchronous requests
    administrator   + access keys, tokens, prices, quotas, simulated capacity, and the operators themselves

Each role may do what the one before it may. A signed request has the rights of an administrator of its account, as a
key of a whole AWS account has.
"""

from enum import IntEnum
from typing import Any


class Role(IntEnum):
    """Ordered: a higher role may do whatever a lower one may."""

    VIEWER = 1
    OPERATOR = 2
    ADMINISTRATOR = 3

    @property
    def group(self) -> str:
        """The name of the Django group that gives this role."""
        return self.name.lower()


ROLES = {role.group: role for role in Role}
"""Roles by the names of their groups, the lowest first."""


def role_of(user: Any) -> Role | None:
    """The highest role of a Django user: a superuser's is administrator; None for who may not even look."""
    if not user.is_active or not user.is_staff:
        return None
    if user.is_superuser:
        return Role.ADMINISTRATOR
    held = set(user.groups.values_list("name", flat=True))
    return max((role for role in Role if role.group in held), default=None)
