"""Who sends a request to the resource paths, as far as rights go. Pure."""

from dataclasses import dataclass

from controlplane.auth.roles import Role


@dataclass(frozen=True)
class Caller:
    """Who asks, for which account, with which rights. All of it comes from the credential.

    `actor` is what events call the caller (`key AKIA...`, `token ci`, `operator alice`), `access_key_id` the key that
    signed, empty for others. `is_installation` marks callers who belong to the account of the installation itself: what
    all accounts share (prices, quotas, rehearsed shortages) is theirs to change, and they may speak for other accounts.
    """

    account_id: str
    actor: str
    role: Role
    is_installation: bool = False
    access_key_id: str = ""
    username: str = ""

    is_authenticated = True

    def __str__(self) -> str:
        return self.actor
