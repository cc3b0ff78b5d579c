"""How fast the simulator plays a fleet, and what one plan costs; `python -m tests.perf.simulator`.

Processor time of one core: a machine that is busy with other things does not make it slower.
"""

import time
from pathlib import Path

from workers.simulator.engine import Simulation
from workers.simulator.parse import parse

SCENARIO = Path(__file__).parents[2] / "deploy" / "scenarios" / "fleet-of-10000.toml"


def run() -> None:
    """Play the largest of the shipped scenarios whole."""
    played = parse(SCENARIO.read_text())
    simulation = Simulation(played)
    started = time.process_time()
    simulation.run()
    seconds = time.process_time() - started
    endpoints = sum(group.count for group in played.groups)
    print(f"\nThe simulator: {endpoints:,} endpoints, {played.days:g} days")
    print(f"  {seconds:.1f} s of one core, {simulation.timeline.events:,} events, {simulation.plans:,} plans")
    rate, each = simulation.timeline.events / seconds, seconds / simulation.plans * 1e6
    print(f"  {rate:,.0f} events/s, {each:.0f} us a plan with all that surrounds it")


if __name__ == "__main__":
    run()
