"""`python -m controlplane.observability.alive WHAT`: probes that run a command inside a container ask this.

    alive http://127.0.0.1:8001/readyz     whether that address answers 200
    alive worker                           whether a process of this role on this host said lately that it makes progress

Exits 0 or 1, with a sentence. A database that does not answer leaves the second question open: then the answer is 0, since
a restart of everything would not bring the database back.
"""

import http.client
import os
import socket
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

import psycopg

FRESH_SECONDS = 60
"""A worker beats every two seconds; one that was silent for so long is restarted, not merely called dead."""

ANSWER_SECONDS = 3.0

_LAST_BEAT = """
SELECT extract(epoch FROM clock_timestamp() - max(seen_at)) FROM observability_heartbeat
WHERE role = %s AND starts_with(process_id, %s)
"""

Verdict = tuple[bool, str]
"""Whether it is alive, and a sentence."""


def answers(url: str) -> Verdict:
    """Whether `url` answers 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        answer = connection.getresponse()
        body = answer.read(1024).decode(errors="replace")
        return answer.status == http.client.OK, f"{url} answers {answer.status}: {body}"
    except (OSError, http.client.HTTPException) as error:
        return False, f"{url} does not answer: {error}"
    finally:
        connection.close()


def beats(role: str, database_url: str, host: str) -> Verdict:
    """Whether a process in this role on this host has beaten within FRESH_SECONDS."""
    try:
        with psycopg.connect(database_url, connect_timeout=int(ANSWER_SECONDS), autocommit=True) as connection:
            row = connection.execute(_LAST_BEAT, [role, f"{host}:"]).fetchone()
    except psycopg.Error as error:
        return True, f"The database cannot be asked about the {role}: {str(error).strip()}"
    if row is None or row[0] is None:
        return False, f"No {role} on {host} has said anything yet."
    return row[0] <= FRESH_SECONDS, f"The {role} on {host} was last heard of {row[0]:.0f} s ago."


def verdict(arguments: list[str], env: Mapping[str, str]) -> Verdict:
    """The answer to one question; raises KeyError without HEADRACE_DATABASE_URL where it is needed."""
    if len(arguments) != 1:
        return False, "usage: python -m controlplane.observability.alive URL|ROLE"
    if arguments[0].startswith("http://"):
        return answers(arguments[0])
    return beats(arguments[0], env["HEADRACE_DATABASE_URL"], socket.gethostname())


if __name__ == "__main__":
    is_alive, sentence = verdict(sys.argv[1:], os.environ)
    print(sentence)
    sys.exit(not is_alive)
