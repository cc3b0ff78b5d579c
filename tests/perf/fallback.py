"""From a refusal to the next launch call: how long the walk to the next pool takes, from the stored attempts."""

import statistics

from tests.system.stack import FIRST, SECOND, Stack, create_endpoint, delete_endpoint, in_service

TIMES = 10

_GAPS = """
SELECT extract(epoch FROM accepted.called_at - refused.ended_at) * 1000
FROM fleet_launchattempt refused JOIN fleet_launchattempt accepted USING (endpoint_id)
WHERE refused.stage = 'refused' AND accepted.stage = 'succeeded'
"""


def run(stack: Stack) -> None:
    """Create endpoints whose first type is dry, one after the other, its mark cleared in between."""
    gaps: list[float] = []
    for number in range(TIMES):
        stack.set_capacity(FIRST, 0)
        name = f"bench-fallback-{number}"
        create_endpoint(stack, name, types=(FIRST, SECOND))
        in_service(stack, name)
        with stack.database() as connection:
            gaps += [float(row[0]) for row in connection.execute(_GAPS).fetchall()]
        delete_endpoint(stack, name)
    print("\nFrom a refusal to the next launch call")
    print(f"  median {statistics.median(gaps):.1f} ms, worst {max(gaps):.1f} ms, of {len(gaps)}")
