"""The gateway's settings, from the environment."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from controlplane.core.gateways import DRAIN_SECONDS, drain_seconds, gateways
from controlplane.invocations.inputs import HOSTS_SETTING, hosts_of
from controlplane.routing.balancer import SLOW_START_SECONDS
from controlplane.routing.weights import read_type_weights


@dataclass(frozen=True)
class Settings:
    """Addresses are host:port; sizes in bytes, durations in seconds. `gateways` processes share the port."""

    host: str
    port: int
    database_url: str
    redis_url: str
    api_address: str
    store_address: str
    secret_key: str
    region: str
    payload_limit_bytes: int
    invocation_timeout_seconds: float
    stream_timeout_seconds: float
    gateway_id: str
    input_hosts: frozenset[str] = frozenset()
    openai_takes_signatures: bool = False
    s3_endpoint_url: str = ""
    capture_seconds: float = 10.0
    type_weights: Mapping[str, float] = field(default_factory=dict)
    slow_start_seconds: float = SLOW_START_SECONDS
    gateways: int = 1
    drain_seconds: int = DRAIN_SECONDS

    @classmethod
    def read(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """The settings in `env`; raises KeyError for a URL that is missing, ValueError for a number that is none."""
        is_store_embedded = env.get("HEADRACE_S3_EMBEDDED") == "1"
        return cls(
            host=env.get("HEADRACE_HOST") or "127.0.0.1",
            port=int(env.get("HEADRACE_PORT") or 8000),
            database_url=env["HEADRACE_DATABASE_URL"],
            redis_url=env["HEADRACE_REDIS_URL"],
            api_address=urlsplit(env["HEADRACE_API_URL"]).netloc,
            store_address=urlsplit(env["HEADRACE_S3_ENDPOINT_URL"]).netloc if is_store_embedded else "",
            secret_key=env["HEADRACE_SECRET_KEY"],
            region=env.get("HEADRACE_REGION") or "us-east-1",
            payload_limit_bytes=int(env.get("HEADRACE_PAYLOAD_LIMIT_BYTES") or 25 * 1024 * 1024),
            invocation_timeout_seconds=float(env.get("HEADRACE_INVOCATION_TIMEOUT_SECONDS") or 60),
            stream_timeout_seconds=float(env.get("HEADRACE_STREAM_TIMEOUT_SECONDS") or 480),
            input_hosts=hosts_of(env.get(HOSTS_SETTING, "")),
            type_weights=read_type_weights(env.get("HEADRACE_TYPE_WEIGHTS", "")),
            slow_start_seconds=float(env.get("HEADRACE_SLOW_START_SECONDS") or SLOW_START_SECONDS),
            gateways=gateways(env),
            drain_seconds=drain_seconds(env),
            s3_endpoint_url=env.get("HEADRACE_S3_ENDPOINT_URL") or "",
            capture_seconds=float(env.get("HEADRACE_CAPTURE_SECONDS") or 10),
            openai_takes_signatures=env.get("HEADRACE_OPENAI_SIGV4") == "1",
            gateway_id=f"{socket.gethostname()}:{os.getpid()}"[:64],
        )
