"""What EC2's codes mean for what is done next."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.ec2 import codes
from workers.providers.ec2.codes import kind_of, kind_of_end
from workers.providers.errors import ErrorKind

KNOWN = [
    ("InsufficientInstanceCapacity", 500, ErrorKind.CAPACITY),
    ("InsufficientFreeAddressesInSubnet", 400, ErrorKind.CAPACITY),
    ("Unsupported", 400, ErrorKind.CAPACITY),
    ("VcpuLimitExceeded", 400, ErrorKind.QUOTA),
    ("MaxSpotInstanceCountExceeded", 400, ErrorKind.QUOTA),
    ("RequestLimitExceeded", 503, ErrorKind.THROTTLED),
    ("UnauthorizedOperation", 403, ErrorKind.MISCONFIGURED),
    ("InvalidAMIID.NotFound", 400, ErrorKind.MISCONFIGURED),
    ("InvalidSubnetID.NotFound", 400, ErrorKind.MISCONFIGURED),
    ("InvalidIamInstanceProfileName.NotFound", 400, ErrorKind.MISCONFIGURED),
    ("InternalError", 500, ErrorKind.AMBIGUOUS),
    ("Unavailable", 503, ErrorKind.AMBIGUOUS),
    ("InvalidInstanceID.NotFound", 400, ErrorKind.GONE),
    ("SomethingNew", 400, ErrorKind.UNKNOWN),
    ("SomethingNew", 500, ErrorKind.AMBIGUOUS),
]


@pytest.mark.parametrize(("code", "status", "kind"), KNOWN)
def test_a_code_has_its_kind(code: str, status: int, kind: ErrorKind) -> None:
    assert kind_of(code, status) is kind


def test_no_code_stands_in_two_tables() -> None:
    tables = (codes.CAPACITY, codes.QUOTA, codes.THROTTLED, codes.MISCONFIGURED, codes.AMBIGUOUS, codes.GONE)
    assert not [pair for one, other in itertools.combinations(tables, 2) for pair in one & other]


@given(st.text(max_size=40), st.integers(200, 599))
def test_every_code_has_a_kind_and_a_failed_server_never_counts_as_a_plain_refusal(code: str, status: int) -> None:
    kind = kind_of(code, status)
    assert kind is not ErrorKind.UNKNOWN or status < 500


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Server.InsufficientInstanceCapacity", ErrorKind.CAPACITY),
        ("Client.VolumeLimitExceeded", ErrorKind.QUOTA),
        ("Server.SpotInstanceTermination", None),
        ("Client.UserInitiatedShutdown", None),
        ("", None),
    ],
)
def test_an_end_before_the_start_is_a_refusal_only_for_want_of_capacity_or_quota(reason: str, kind: object) -> None:
    assert kind_of_end(reason) is kind
