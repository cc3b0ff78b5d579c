"""What `manage.py up` runs beside the engines, in order, and the environment that tells each where the others are."""

import http.client
import sys
from collections.abc import Mapping
from pathlib import Path

from controlplane.core.gateways import drain_seconds, gateways
from controlplane.embedded.child import Spec
from controlplane.embedded.engines import Engines, marked
from controlplane.embedded.store import accepts

API_THREADS = 8
WORKER_THREADS = 8
LEAVE_SECONDS = 10.0
"""What a gateway may take, its calls over, to write what it has counted and captured."""


def environment(
    engines: Engines, kept: Mapping[str, str], env: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]
) -> dict[str, str]:
    """The environment of every process of Headrace: URLs and keys, so that the code itself knows nothing else."""
    return {
        **env,
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONUNBUFFERED": "1",
        "HEADRACE_DATA_DIR": str(data_dir),
        "HEADRACE_PORT": str(ports["gateway"]),
        "HEADRACE_DATABASE_URL": engines.database_url,
        "HEADRACE_REDIS_URL": engines.redis_url,
        "HEADRACE_S3_ENDPOINT_URL": engines.s3_endpoint_url,
        "HEADRACE_S3_EMBEDDED": "1" if engines.has_embedded_store else "",
        "HEADRACE_API_URL": f"http://127.0.0.1:{ports['api']}",
        "HEADRACE_SECRET_KEY": env.get("HEADRACE_SECRET_KEY") or kept["secret_key"],
        "HEADRACE_ADMIN_PASSWORD": env.get("HEADRACE_ADMIN_PASSWORD") or kept["admin_password"],
        "HEADRACE_ACCESS_KEY_ID": engines.access_key_id,
        "HEADRACE_SECRET_ACCESS_KEY": engines.secret_access_key,
        **_store_credentials(engines),
    }


def _store_credentials(engines: Engines) -> dict[str, str]:
    """The workers reach the embedded store with the bootstrap key; another store by boto3's own chain."""
    if not engines.has_embedded_store:
        return {}
    return {"AWS_ACCESS_KEY_ID": engines.access_key_id, "AWS_SECRET_ACCESS_KEY": engines.secret_access_key}


def specs(env: Mapping[str, str], data_dir: Path, ports: Mapping[str, int]) -> list[Spec]:
    """API, worker, scheduler and gateway, in the order in which they start."""
    logs = data_dir / "logs"
    python = sys.executable
    bin_dir = Path(python).parent
    api = [
        str(bin_dir / "granian"),
        *("--interface", "wsgi", "--host", "127.0.0.1", "--port", str(ports["api"])),
        *("--workers", "1", "--blocking-threads", str(API_THREADS), "--no-ws", "--log-level", "warning"),
        "controlplane.config.wsgi:application",
    ]
    worker = [
        *(python, "-m", "celery", "-A", "workers.app", "worker", "--pool", "threads"),
        *("--concurrency", str(WORKER_THREADS), "--without-gossip", "--without-mingle", "--without-heartbeat"),
        *("--loglevel", "WARNING"),
    ]
    made = [
        Spec("api", api, logs / "api.log", env, is_ready=lambda _: accepts(ports["api"])),
        Spec("worker", worker, logs / "worker.log", env, stop_seconds=20),
        Spec("scheduler", [python, "manage.py", "scheduler"], logs / "scheduler.log", env),
        *_gateways(env, logs, ports["gateway"]),
    ]
    return [marked(spec, data_dir) for spec in made]


def _gateways(env: Mapping[str, str], logs: Path, port: int) -> list[Spec]:
    """Those that share the port; told to stop, each finishes the calls it has."""
    names = ["gateway", *(f"gateway-{number}" for number in range(2, gateways(env) + 1))]
    argv, grace = [sys.executable, "-m", "controlplane.gateway"], drain_seconds(env) + LEAVE_SECONDS
    return [
        Spec(name, argv, logs / f"{name}.log", env, stop_seconds=grace, is_ready=lambda _: answers_ready(port))
        for name in names
    ]


def answers_ready(port: int) -> bool:
    """Whether `/readyz` says 200: an endpoint could be created and served."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
