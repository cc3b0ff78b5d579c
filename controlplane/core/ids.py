"""Names, tokens and ARNs.

ARNs keep the case of the name (older front ends lower-cased it); comparisons fold the case.
"""

import re
import uuid
from dataclasses import dataclass

PARTITION = "aws"
_ARN = re.compile(r"arn:[a-z-]+:sagemaker:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):(?P<kind>[a-z-]+)/(?P<name>.+)")


@dataclass(frozen=True)
class Arn:
    """A resource's full name; `kind` is `model`, `endpoint-config` or `endpoint`."""

    region: str
    account_id: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"arn:{PARTITION}:sagemaker:{self.region}:{self.account_id}:{self.kind}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Arn | None":
        """The ARN in `text`, or None where it is no ARN of this service."""
        match = _ARN.fullmatch(text)
        return cls(match["region"], match["account"], match["kind"], match["name"]) if match else None


def new_uuid() -> uuid.UUID:
    """A fresh random identifier."""
    return uuid.uuid4()


def new_token() -> str:
    """A fresh idempotency token: 32 hexadecimal characters, so it fits every provider's limit (EC2: 64 ASCII)."""
    return uuid.uuid4().hex
