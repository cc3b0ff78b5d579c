"""EC2's error codes as tables: what a code means for what is done next.

Only the code is read. The message is for humans: its hints about other zones are EC2's guess of a moment ago.
Sources: the list of error codes in the EC2 API reference, and the tables of other controllers that launch instances.
"""

from workers.providers.errors import ErrorKind

CAPACITY = frozenset(
    {
        *("InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity"),
        *("InsufficientCapacity", "InsufficientAddressCapacity", "InsufficientVolumeCapacity", "UnfulfillableCapacity"),
        *("ReservationCapacityExceeded", "InsufficientFreeAddressesInSubnet", "SpotMaxPriceTooLow"),
        # The zone does not offer this type at all, or not to this market: the next offering may well do.
        "Unsupported",
    }
)
QUOTA = frozenset(
    {
        *("VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "MaxSpotFleetRequestCountExceeded"),
        *("VolumeLimitExceeded", "MaxIOPSLimitExceeded", "AddressLimitExceeded", "NetworkInterfaceLimitExceeded"),
        *("ResourceLimitExceeded", "InstanceTypeQuotaExceeded", "HostLimitExceeded", "PendingVerification"),
    }
)
THROTTLED = frozenset(
    {
        *("RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
        *("RequestThrottledException", "TooManyRequestsException", "EC2ThrottledException", "BandwidthLimitExceeded"),
        *("SlowDown", "PriorRequestNotComplete", "ConcurrentTagAccess"),
    }
)
MISCONFIGURED = frozenset(
    {
        *("UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "Blocked", "OptInRequired"),
        *("SignatureDoesNotMatch", "IncompleteSignature", "UnrecognizedClientException", "ExpiredToken", "RequestExpired"),
        *("MissingAction", "MissingAuthenticationToken", "MissingParameter", "UnknownParameter", "MalformedQueryString"),
        *("UnsupportedOperation", "UnsupportedInstanceAttribute", "VPCIdNotSpecified", "VPCResourceNotSpecified"),
        *("EncryptedVolumesNotSupported", "NonEBSInstance", "DefaultVpcDoesNotExist", "PendingSubscription"),
        *("SecurityGroupLimitExceeded", "SecurityGroupsPerInstanceLimitExceeded", "TagLimitExceeded", "NotExportable"),
    }
)
AMBIGUOUS = frozenset({"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout"})
GONE = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})

OTHER_PARAMETERS = "IdempotentParameterMismatch"
"""The token was used with other parameters: a launch by it was asked for before, so look for its instance."""

TOKEN_SPENT = "IdempotentInstanceTerminated"
"""The token's instance has ended already; it can launch nothing any more."""

_MISCONFIGURED_PREFIXES = ("Invalid", "Client.Invalid")
"""Some eighty codes say that a parameter names what there is not, or makes no sense."""

_TABLES = (
    (CAPACITY, ErrorKind.CAPACITY),
    (QUOTA, ErrorKind.QUOTA),
    (THROTTLED, ErrorKind.THROTTLED),
    (MISCONFIGURED, ErrorKind.MISCONFIGURED),
    (AMBIGUOUS, ErrorKind.AMBIGUOUS),
    (GONE, ErrorKind.GONE),
)


def kind_of(code: str, http_status: int = 400) -> ErrorKind:
    """The kind of an error answer.

    Tables come before the status, since EC2 answers a shortage with 500 and a throttle with 503. A code that nobody
    knows is AMBIGUOUS with a status of 500 or more, when something may have happened, and UNKNOWN otherwise.
    """
    for table, kind in _TABLES:
        if code in table:
            return kind
    if code.startswith(_MISCONFIGURED_PREFIXES):
        return ErrorKind.MISCONFIGURED
    return ErrorKind.AMBIGUOUS if http_status >= 500 else ErrorKind.UNKNOWN


def kind_of_end(state_reason: str) -> ErrorKind | None:
    """The kind of refusal behind an instance that ended before it ran, by its StateReason code (`Server.X`); None when
    it was not refused but ended."""
    code = state_reason.partition(".")[2]
    for table, kind in ((CAPACITY, ErrorKind.CAPACITY), (QUOTA, ErrorKind.QUOTA)):
        if code in table:
            return kind
    return None
