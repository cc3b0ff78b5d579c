"""What the operator sets for EC2, read in one place; a setting that makes no sense is refused by its name.

    HEADRACE_EC2_SUBNETS                JSON: zone -> subnet; the order is the order of preference. Needed
    HEADRACE_EC2_AMI                    an AMI with docker, tar and the AWS CLI, or JSON: type or `*` -> AMI. Needed
    HEADRACE_EC2_SECURITY_GROUPS        ids between commas; none = the VPC's default group
    HEADRACE_EC2_INSTANCE_PROFILE       name or ARN; the machine fetches images and model data by its role
    HEADRACE_EC2_TYPES                  JSON: our type -> EC2's; types not named lose their `ml.`
    HEADRACE_EC2_CAPACITY_RESERVATIONS  JSON: type or type/zone -> cr-..., block:cr-... (a capacity block), open or none
    HEADRACE_EC2_ROOT_GIB               size of the root volume; none = the AMI's
    HEADRACE_EC2_ROOT_DEVICE            its name in the AMI (/dev/xvda)
    HEADRACE_EC2_PUBLIC_ADDRESS         1 = instances get a public address and are called by it (0)
    HEADRACE_EC2_PORT                   the machine's port behind which the container's 8080 is published (8080)
    HEADRACE_EC2_CONSISTENCY_SECONDS    how long EC2's listings may miss a new instance (60)
    HEADRACE_EC2_ENDPOINT_URL           another address of the EC2 API; AWS_ENDPOINT_URL is not read
    HEADRACE_EC2_PROFILE                a profile of AWS's configuration files, for credentials
    HEADRACE_REGION                     the region (us-east-1)

Without a profile credentials come from boto3's own chain.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

ANY = "*"
_ZONE = re.compile(r"[a-z0-9-]{3,40}")
_RESERVATION = re.compile(r"open|none|(block:)?cr-[0-9a-z-]{4,40}")


@dataclass(frozen=True)
class Settings:
    """The settings above; `subnets` in order of preference, `amis` by our type or `*`.

    `has_embedded_store`: the key in the environment is the embedded store's, not EC2's.
    """

    subnets: Mapping[str, str]
    amis: Mapping[str, str]
    region: str = "us-east-1"
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    reservations: Mapping[str, str] = field(default_factory=dict)
    root_gib: int = 0
    root_device: str = "/dev/xvda"
    has_public_address: bool = False
    port: int = 8080
    consistency_window_seconds: float = 60.0
    endpoint_url: str = ""
    profile: str = ""
    has_embedded_store: bool = False

    @classmethod
    def read(cls, env: Mapping[str, str]) -> "Settings":
        """The settings in `env`; raises ValueError, naming the setting, for one that is missing or makes no sense."""
        return cls(
            subnets=_table(env, "SUBNETS", _ZONE, re.compile(r"subnet-[0-9a-z]{8,40}"), is_needed=True),
            amis=_amis(env),
            region=env.get("HEADRACE_REGION") or "us-east-1",
            security_groups=_security_groups(env),
            instance_profile=_word(env, "INSTANCE_PROFILE", re.compile(r"[\w+=,.@:/-]{1,256}|"), ""),
            types=_table(env, "TYPES", re.compile(r"ml\.[a-z0-9.-]{1,60}"), re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")),
            reservations=_table(env, "CAPACITY_RESERVATIONS", re.compile(r"ml\.[a-z0-9.-]+(/[a-z0-9-]+)?"), _RESERVATION),
            root_gib=_number(env, "ROOT_GIB", 0, 65536),
            root_device=_word(env, "ROOT_DEVICE", re.compile(r"/dev/[a-z0-9]{2,20}"), "/dev/xvda"),
            has_public_address=_number(env, "PUBLIC_ADDRESS", 0, 1) == 1,
            port=_number(env, "PORT", 8080, 65535),
            consistency_window_seconds=float(_number(env, "CONSISTENCY_SECONDS", 60, 3600)),
            endpoint_url=_word(env, "ENDPOINT_URL", re.compile(r"https?://[^\s/]+/?|"), ""),
            profile=_word(env, "PROFILE", re.compile(r"[^\0\r\n]{0,200}"), ""),
            has_embedded_store=env.get("HEADRACE_S3_EMBEDDED") == "1",
        )

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones there are subnets for, most wanted first."""
        return tuple(self.subnets)

    def ami(self, instance_type: str) -> str:
        """The AMI for one of our types; empty when no AMI is set for it."""
        return self.amis.get(instance_type) or self.amis.get(ANY, "")

    def ec2_type(self, instance_type: str) -> str:
        """EC2's name of one of our types."""
        return self.types.get(instance_type) or instance_type.removeprefix("ml.")

    def reservation(self, instance_type: str, zone: str) -> str:
        """What is set about capacity reservations for this type in this zone; empty = EC2's default."""
        return self.reservations.get(f"{instance_type}/{zone}") or self.reservations.get(instance_type, "")


def _name(short: str) -> str:
    return f"HEADRACE_EC2_{short}"


def _word(env: Mapping[str, str], short: str, pattern: re.Pattern[str], default: str) -> str:
    value = env.get(_name(short), "").strip() or default
    if not pattern.fullmatch(value):
        raise ValueError(f"{_name(short)} makes no sense: {value!r}.")
    return value


def _number(env: Mapping[str, str], short: str, default: int, limit: int) -> int:
    value = env.get(_name(short), "").strip() or str(default)
    if not (value.isascii() and value.isdigit()) or int(value) > limit:
        raise ValueError(f"{_name(short)} must be a whole number from 0 to {limit}, not {value!r}.")
    return int(value)


def _table(
    env: Mapping[str, str], short: str, key: re.Pattern[str], value: re.Pattern[str], *, is_needed: bool = False
) -> dict[str, str]:
    """The JSON object in a setting, with keys and values of these forms."""
    text = env.get(_name(short), "").strip()
    if not text and is_needed:
        raise ValueError(f"{_name(short)} must be set for the provider ec2: a JSON object.")
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"{_name(short)} must be a JSON object: {error}.") from error
    if not isinstance(found, dict) or (is_needed and not found):
        raise ValueError(f"{_name(short)} must be a JSON object with at least one entry.")
    for name, entry in found.items():
        if not key.fullmatch(name) or not isinstance(entry, str) or not value.fullmatch(entry):
            raise ValueError(f"{_name(short)} has an entry that makes no sense: {name!r}: {entry!r}.")
    return found


def _amis(env: Mapping[str, str]) -> dict[str, str]:
    ami, text = re.compile(r"ami-[0-9a-z]{8,40}"), env.get(_name("AMI"), "").strip()
    if text.startswith("{"):
        return _table(env, "AMI", re.compile(r"\*|ml\.[a-z0-9.-]{1,60}"), ami, is_needed=True)
    if not ami.fullmatch(text):
        raise ValueError(f"{_name('AMI')} must be an AMI's id, or a JSON object of them by type, not {text!r}.")
    return {ANY: text}


def _security_groups(env: Mapping[str, str]) -> tuple[str, ...]:
    found = tuple(name.strip() for name in env.get(_name("SECURITY_GROUPS"), "").split(",") if name.strip())
    for name in found:
        if not re.fullmatch(r"sg-[0-9a-z]{8,40}", name):
            raise ValueError(f"{_name('SECURITY_GROUPS')} must be ids (sg-...) between commas, not {name!r}.")
    return found
