"""The environment variables a caller may rely on, read in one place.

    HEADRACE_DATABASE_URL      postgresql://user:password@host:port/name
    HEADRACE_REDIS_URL         redis://:password@host:port/0 (Redis or Valkey)
    HEADRACE_S3_ENDPOINT_URL   http://host:port of an S3-compatible store; unset = the cloud's own
    HEADRACE_SECRET_KEY        encrypts access-key secrets at rest (a Fernet key)
    ...and those of `Environment` below.

`manage.py up` sets the first four for its children when the engines are embedded, and writes them into the data
directory, where management commands of another shell find them; a production set-up sets them itself.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.core.offerings import MARKETS
from controlplane.invocations.inputs import HOSTS_SETTING, hosts_of

WRITTEN_BY_UP = "environment.json"


class SettingError(Exception):
    """An environment variable cannot be used; the message names it and says what it should hold."""


@dataclass(frozen=True)
class Environment:
    """What the environment says; durations in seconds."""

    data_dir: Path
    database_url: str
    redis_url: str
    s3_endpoint_url: str
    is_store_embedded: bool
    sns_endpoint_url: str
    input_hosts: frozenset[str]
    input_limit_bytes: int
    secret_key: str
    region: str
    account_id: str
    access_key_id: str
    secret_access_key: str
    admin_password: str
    provider: str
    provision_timeout_seconds: int
    startup_timeout_seconds: int
    capacity_mark_seconds: int
    coming_home_budget: int
    coming_home_hold_down_seconds: int
    metrics_retention_seconds: int
    async_retention_days: int
    async_payload_retention_days: int
    log_level: str
    prices: Mapping[str, float]
    orphan_sweep: str
    quotas: Mapping[str, int]
    metrics_token: str
    public_url: str

    @classmethod
    def read(cls, env: Mapping[str, str] = os.environ) -> "Environment":
        """The settings in `env`, completed by those of a running `manage.py up`; raises SettingError for nonsense."""
        env = {**_of_running_set_up(env), **env}
        return cls(
            data_dir=Path(env.get("HEADRACE_DATA_DIR") or ".headrace").absolute(),
            database_url=env.get("HEADRACE_DATABASE_URL", ""),
            redis_url=env.get("HEADRACE_REDIS_URL", ""),
            s3_endpoint_url=env.get("HEADRACE_S3_ENDPOINT_URL", ""),
            is_store_embedded=env.get("HEADRACE_S3_EMBEDDED") == "1",
            sns_endpoint_url=env.get("HEADRACE_SNS_ENDPOINT_URL", ""),
            input_hosts=hosts_of(env.get(HOSTS_SETTING, "")),
            input_limit_bytes=_whole(env, "HEADRACE_INPUT_LIMIT_BYTES", 1_000_000_000, "bytes"),
            secret_key=env.get("HEADRACE_SECRET_KEY", ""),
            region=env.get("HEADRACE_REGION") or "us-east-1",
            account_id=_account_id(env.get("HEADRACE_ACCOUNT_ID") or "123456789012"),
            access_key_id=env.get("HEADRACE_ACCESS_KEY_ID", ""),
            secret_access_key=env.get("HEADRACE_SECRET_ACCESS_KEY", ""),
            admin_password=env.get("HEADRACE_ADMIN_PASSWORD", ""),
            provider=env.get("HEADRACE_PROVIDER") or "local",
            provision_timeout_seconds=_seconds(env, "HEADRACE_PROVISION_TIMEOUT_SECONDS", 1800),
            startup_timeout_seconds=_seconds(env, "HEADRACE_STARTUP_TIMEOUT_SECONDS", 480),
            capacity_mark_seconds=_seconds(env, "HEADRACE_CAPACITY_MARK_SECONDS", 300),
            coming_home_budget=_whole(env, "HEADRACE_COMING_HOME_BUDGET", 2, "moves"),
            coming_home_hold_down_seconds=_seconds(env, "HEADRACE_COMING_HOME_HOLD_DOWN_SECONDS", 1800),
            metrics_retention_seconds=_seconds(env, "HEADRACE_METRICS_RETENTION_SECONDS", 15 * 86_400),
            async_retention_days=_whole(env, "HEADRACE_ASYNC_RETENTION_DAYS", 7, "days"),
            async_payload_retention_days=_whole(env, "HEADRACE_ASYNC_PAYLOAD_RETENTION_DAYS", 7, "days"),
            log_level=env.get("HEADRACE_LOG_LEVEL") or "INFO",
            prices=_prices(env),
            orphan_sweep=_one_of(env, "HEADRACE_ORPHAN_SWEEP", ("kill", "report")),
            quotas=_quotas(env),
            metrics_token=env.get("HEADRACE_METRICS_TOKEN", ""),
            public_url=_origin(env, "HEADRACE_PUBLIC_URL"),
        )


def _of_running_set_up(env: Mapping[str, str]) -> dict[str, str]:
    """What `manage.py up` wrote into the data directory; nothing when the database is named in `env`."""
    if env.get("HEADRACE_DATABASE_URL"):
        return {}
    try:
        found: dict[str, str] = json.loads((Path(env.get("HEADRACE_DATA_DIR") or ".headrace") / WRITTEN_BY_UP).read_text())
    except FileNotFoundError:
        return {}
    return found


def _account_id(value: str) -> str:
    if len(value) != 12 or not value.isdigit():
        raise SettingError(f"HEADRACE_ACCOUNT_ID must be 12 digits, not {value!r}.")
    return value


def _origin(env: Mapping[str, str], name: str) -> str:
    """Scheme, host and port of a URL, as browsers name an origin; empty where nothing is set."""
    value = env.get(name, "").rstrip("/")
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.netloc or value != f"{parts.scheme}://{parts.netloc}"):
        raise SettingError(f"{name} must be like https://headrace.example.com:8443, without a path, not {value!r}.")
    return value


def _seconds(env: Mapping[str, str], name: str, default: int) -> int:
    return _whole(env, name, default, "seconds")


def _whole(env: Mapping[str, str], name: str, default: int, unit: str) -> int:
    value = env.get(name) or str(default)
    if not value.isdigit() or int(value) < 1:
        raise SettingError(f"{name} must be a whole number of {unit}, at least 1, not {value!r}.")
    return int(value)


def _one_of(env: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """One of these words, the first where nothing is set."""
    value = env.get(name) or words[0]
    if value not in words:
        raise SettingError(f"{name} must be {' or '.join(words)}, not {value!r}.")
    return value


def _prices(env: Mapping[str, str]) -> dict[str, float]:
    """HEADRACE_PRICES: instance type, or type@market, -> US dollars an hour."""
    prices = {}
    for name, price in read_json_mapping(env, "HEADRACE_PRICES").items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not math.isfinite(price) or price < 0:
            raise SettingError(f"HEADRACE_PRICES must hold US dollars an hour for {name!r}, not {price!r}.")
        _, at, market = name.partition("@")
        if at and market not in MARKETS:
            raise SettingError(f"HEADRACE_PRICES: the market in {name!r} must be one of {', '.join(MARKETS)}.")
        prices[name] = float(price)
    return prices


def _quotas(env: Mapping[str, str]) -> dict[str, int]:
    """HEADRACE_QUOTAS: instance type, or `*` for all types together, -> instances an account may want at once."""
    quotas = {}
    for name, limit in read_json_mapping(env, "HEADRACE_QUOTAS").items():
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise SettingError(f"HEADRACE_QUOTAS must hold a whole number of instances for {name!r}, not {limit!r}.")
        quotas[name] = limit
    return quotas


def read_json_mapping(env: Mapping[str, str], name: str) -> dict[str, object]:
    """The JSON object in environment variable `name`, empty when unset; raises SettingError for anything else."""
    try:
        value = json.loads(env.get(name) or "{}")
    except ValueError as error:
        raise SettingError(f"{name} must be a JSON object: {error}.") from error
    if not isinstance(value, dict):
        raise SettingError(f"{name} must be a JSON object, not {type(value).__name__}.")
    return value
