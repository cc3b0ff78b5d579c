"""Who else carries calls to inference servers: how each is had, started and called.

They route between workers of one model. None of them checks a signature, counts for metrics that are kept, or reads its
routes from a database; LiteLLM checks a key. Each gets one process (one thread where that can be said), as the gateway has.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.perf.rival_install import Program, from_debian, from_python

CHAT = "/v1/chat/completions"
MASTER_KEY = "sk-5f0c9b1e7d3a4c66b8e2a1f09d7c4e35"
"""LiteLLM does not start with a weak one; it guards nothing here."""


@dataclass(frozen=True)
class Place:
    """Where a rival runs: a folder for its files, the port it listens on, another free one, and the container's."""

    folder: Path
    port: int
    spare_port: int
    upstream_port: int


@dataclass(frozen=True)
class Rival:
    """One of them. `arguments` writes what it needs into its folder and gives its command line."""

    name: str
    install: Callable[[], Program]
    arguments: Callable[[Place], list[str]]
    headers: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    most_connections: int = 64
    """With more it takes so many seconds a call that rounds would have no end."""


def _haproxy(place: Place) -> list[str]:
    # http-no-delay: without it each event of a stream waits for the next ones, up to 200 ms.
    text = f"""
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 2s
  timeout client 60s
  timeout server 60s
listen bench
  bind 127.0.0.1:{place.port}
  server container 127.0.0.1:{place.upstream_port}
"""
    return ["-f", _written(place, "haproxy.cfg", text), "-db"]


def _nginx(place: Place) -> list[str]:
    temporary = "\n".join(
        f"  {kind}_temp_path {place.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = f"""
worker_processes 1;
daemon off;
pid {place.folder}/nginx.pid;
error_log {place.folder}/nginx-errors.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
{temporary}
  keepalive_requests 100000000;
  upstream container {{ server 127.0.0.1:{place.upstream_port}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{place.port};
    location / {{
      proxy_pass http://container;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""
    errors = f"{place.folder}/nginx-errors.log"
    return ["-p", str(place.folder), "-e", errors, "-c", _written(place, "nginx.conf", text)]


def _router(level: str, *verb: str) -> Callable[[Place], list[str]]:
    """The command line that both Rust routers take; they name the level of warnings differently."""

    def arguments(place: Place) -> list[str]:
        address = ["--host", "127.0.0.1", "--port", str(place.port), "--prometheus-port", str(place.spare_port)]
        workers = ["--worker-urls", f"http://127.0.0.1:{place.upstream_port}"]
        return [*verb, *address, *workers, "--policy", "round_robin", "--log-level", level]

    return arguments


def _litellm(place: Place) -> list[str]:
    upstream = f"http://127.0.0.1:{place.upstream_port}/v1"
    model = {
        "model_name": "bench",
        "litellm_params": {"model": "openai/bench", "api_base": upstream, "api_key": "none"},
    }
    # JSON is YAML.
    config = _written(place, "litellm.yaml", json.dumps({"model_list": [model]}))
    return ["--config", config, "--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1"]


def _written(place: Place, name: str, text: str) -> str:
    path = place.folder / name
    path.write_text(text)
    return str(path)


HAPROXY, VLLM_ROUTER, SGLANG_ROUTER = "HAProxy", "vllm-router", "sglang-router"

RIVALS = (
    Rival(
        HAPROXY,
        lambda: from_debian("haproxy", "haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"),
        _haproxy,
    ),
    Rival("nginx", lambda: from_debian("nginx", "nginx"), _nginx),
    Rival(VLLM_ROUTER, lambda: from_python("vllm-router", "vllm-router==0.1.17"), _router("warning")),
    Rival(SGLANG_ROUTER, lambda: from_python("sglang-router", "sglang-router==0.3.2"), _router("warn", "launch")),
    Rival(
        "LiteLLM",
        lambda: from_python("litellm", "litellm[proxy]==1.108.7"),
        _litellm,
        headers={"Authorization": f"Bearer {MASTER_KEY}"},
        env={"LITELLM_MASTER_KEY": MASTER_KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        most_connections=16,
    ),
)
