"""How long the walk to the next pool takes, and how often a dry type is asked when many endpoints want it at once.

From the stored attempts: the time from a refusal to the same endpoint's next launch call (it should be below 100 ms), and
for a crowd created at the same moment the calls that the dry type got (one is enough) and the time to InService.
"""

import statistics
from concurrent.futures import ThreadPoolExecutor

from tests.system.stack import FIRST, SECOND, Stack, create_endpoint, delete_endpoint, in_service

TIMES = 10
CROWD = 10

_GAPS = """
SELECT extract(epoch FROM accepted.called_at - refused.ended_at) * 1000
FROM fleet_launchattempt refused JOIN fleet_launchattempt accepted USING (endpoint_id)
WHERE refused.stage = 'refused' AND accepted.stage = 'succeeded'
"""
_REFUSALS = "SELECT count(*) FROM fleet_launchattempt WHERE stage = 'refused'"
_WAITS = """
SELECT extract(epoch FROM min(instance.ready_at) - endpoint.created_at)
FROM fleet_instance instance JOIN endpoints_endpoint endpoint ON endpoint.id = instance.endpoint_id GROUP BY endpoint.id
"""


def run(stack: Stack) -> None:
    """Endpoints whose first type is dry: one after the other with the mark cleared in between, then a crowd at once."""
    _one_by_one(stack)
    stack.set_capacity(SECOND, CROWD)
    for title, slots in (("dry", 0), ("open", CROWD)):
        stack.set_capacity(FIRST, slots)
        _crowd(stack, title)


def _one_by_one(stack: Stack) -> None:
    gaps: list[float] = []
    for number in range(TIMES):
        stack.set_capacity(FIRST, 0)
        name = f"bench-fallback-{number}"
        create_endpoint(stack, name, types=(FIRST, SECOND))
        in_service(stack, name)
        gaps += _numbers(stack, _GAPS)
        delete_endpoint(stack, name)
    print("\nFrom a refusal to the next launch call")
    print(f"  median {statistics.median(gaps):.1f} ms, worst {max(gaps):.1f} ms, of {len(gaps)}")


def _crowd(stack: Stack, title: str) -> None:
    names = [f"bench-crowd-{title}-{number}" for number in range(CROWD)]
    with ThreadPoolExecutor(CROWD) as pool:
        list(pool.map(lambda name: create_endpoint(stack, name, types=(FIRST, SECOND)), names))
        list(pool.map(lambda name: in_service(stack, name), names))
        refusals, waits = _numbers(stack, _REFUSALS)[0], _numbers(stack, _WAITS)
        list(pool.map(lambda name: delete_endpoint(stack, name), names))
    print(f"\n{CROWD} endpoints at once whose first type is {title}")
    print(f"  calls refused: {refusals:.0f}")
    print(f"  to the first good /ping: median {statistics.median(waits):.2f} s, worst {max(waits):.2f} s")


def _numbers(stack: Stack, query: str) -> list[float]:
    with stack.database() as connection:
        return [float(row[0]) for row in connection.execute(query).fetchall()]
