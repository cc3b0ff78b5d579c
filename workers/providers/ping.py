"""`GET /ping` of a container over HTTP, as the container contract has it: 200 is healthy, anything else is not."""

import http.client

from workers.providers.base import Health


def ping(address: str, timeout_seconds: float) -> Health:
    """Ask once; a container that does not answer in time or answers nonsense is unhealthy, never an error."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout_seconds)
    try:
        connection.request("GET", "/ping")
        status = connection.getresponse().status
    except TimeoutError:
        return Health(False, f"/ping did not answer within {timeout_seconds:g} s")
    except (OSError, http.client.HTTPException) as error:
        return Health(False, f"/ping failed: {type(error).__name__}")
    finally:
        connection.close()
    return Health(status == http.client.OK, "" if status == http.client.OK else f"/ping answered {status}")
