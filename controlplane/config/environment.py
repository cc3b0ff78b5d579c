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
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    log_level: str

    @classmethod
    def read(cls, env: Mapping[str, str] = os.environ) -> "Environment":
        """The settings in `env`, completed by those of a running `manage.py up`; raises SettingError for nonsense."""
        env = {**_of_running_set_up(env), **env}
        return cls(
            data_dir=Path(env.get("HEADRACE_DATA_DIR") or ".headrace").absolute(),
            database_url=env.get("HEADRACE_DATABASE_URL", ""),
            redis_url=env.get("HEADRACE_REDIS_URL", ""),
            s3_endpoint_url=env.get("HEADRACE_S3_ENDPOINT_URL", ""),
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
            log_level=env.get("HEADRACE_LOG_LEVEL") or "INFO",
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


def _seconds(env: Mapping[str, str], name: str, default: int) -> int:
    value = env.get(name) or str(default)
    if not value.isdigit() or int(value) < 1:
        raise SettingError(f"{name} must be a whole number of seconds, at least 1, not {value!r}.")
    return int(value)


def read_json_mapping(env: Mapping[str, str], name: str) -> dict[str, object]:
    """The JSON object in environment variable `name`, empty when unset; raises SettingError for anything else."""
    try:
        value = json.loads(env.get(name) or "{}")
    except ValueError as error:
        raise SettingError(f"{name} must be a JSON object: {error}.") from error
    if not isinstance(value, dict):
        raise SettingError(f"{name} must be a JSON object, not {type(value).__name__}.")
    return value
