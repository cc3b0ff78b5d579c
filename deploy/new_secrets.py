"""`python3 deploy/new_secrets.py > deploy/compose/.env`: the secrets of a new installation, one a line. Needs Python alone.

The same file makes the Secret of the Kubernetes manifests. The two URLs name the engines as both set-ups call them; for
engines of your own put their URLs in the place of these.
"""

import base64
import secrets

KEY_ID_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def new_secrets() -> dict[str, str]:
    """Name -> value; no value holds a character that a shell, a URL or Compose would read as anything else."""
    postgres, valkey = secrets.token_hex(24), secrets.token_hex(24)
    return {
        "POSTGRES_USER": "headrace",
        "POSTGRES_DB": "headrace",
        "POSTGRES_PASSWORD": postgres,
        "VALKEY_PASSWORD": valkey,
        "HEADRACE_DATABASE_URL": f"postgresql://headrace:{postgres}@postgres:5432/headrace",
        "HEADRACE_REDIS_URL": f"redis://:{valkey}@valkey:6379/0",
        "HEADRACE_SECRET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "HEADRACE_ACCESS_KEY_ID": "AKIA" + "".join(secrets.choice(KEY_ID_LETTERS) for _ in range(16)),
        "HEADRACE_SECRET_ACCESS_KEY": secrets.token_hex(20),
        "HEADRACE_ADMIN_PASSWORD": secrets.token_hex(8),
        "HEADRACE_METRICS_TOKEN": secrets.token_hex(24),
    }


if __name__ == "__main__":
    for name, value in new_secrets().items():
        print(f"{name}={value}")
