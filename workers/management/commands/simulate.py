"""`manage.py simulate SCENARIO.toml`: weeks of capacity weather over a whole fleet, in seconds and without a cloud."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.core import clock
from workers.simulator.engine import Simulation
from workers.simulator.gate import BoundError, misses, read_bounds
from workers.simulator.ledger import Ledger
from workers.simulator.parse import parse
from workers.simulator.picture import draw
from workers.simulator.report import Report, report, to_text
from workers.simulator.scenario import Scenario
from workers.simulator.toml_table import ScenarioError

SHOW_SECONDS = 0.5
"""How often the progress line is written anew."""


class Command(BaseCommand):
    """Plays a scenario by the planner that runs in production; exit code 1 when a bound is not kept."""

    help = "Play a scenario of shortages, interruptions and demand against the planner, and report what it comes to."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        bound = {"action": "append", "default": [], "metavar": "METRIC=NUMBER"}
        parser.add_argument("scenario", type=Path, help="a TOML file; deploy/scenarios/ has examples")
        parser.add_argument("--days", type=float, help="play so many days instead of what the scenario says")
        parser.add_argument("--seed", type=int, help="draw with this seed instead of the scenario's")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
        parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the timeline")
        parser.add_argument("--fail-below", **bound, help="exit with 1 below it; GROUP.METRIC=NUMBER for one group")
        parser.add_argument("--fail-above", **bound, help="the same for an upper bound")
        parser.add_argument("--progress", action="store_true", help="show progress even where no terminal is")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            scenario, bounds = self._read(options)
            simulation = Simulation(scenario)
            ledger = self._play(simulation, is_shown=options["progress"] or sys.stderr.isatty())
            found = report(scenario, ledger)
            self.stdout.write(to_text(found))
            self._write(found, scenario, ledger, options)
        except (OSError, UnicodeDecodeError, BoundError) as error:
            raise CommandError(str(error)) from error
        except ScenarioError as error:
            raise CommandError(f"{options['scenario']} is no scenario:\n{error}") from error
        missed = misses(found, bounds)
        if missed:
            raise CommandError("Not kept: " + "; ".join(missed) + ".")

    def _read(self, options: dict[str, Any]) -> tuple[Scenario, Any]:
        """The scenario and the bounds; whatever is wrong with them is found before anything is played."""
        text = options["scenario"].read_text(encoding="utf-8")
        scenario = parse(text, days=options["days"], seed=options["seed"])
        names = [group.name for group in scenario.groups]
        if options["picture"] is not None and options["picture"].suffix != ".svg":
            raise CommandError(f"The picture is an SVG: name it FILE.svg, not {options['picture'].name}.")
        return scenario, read_bounds(options["fail_below"], options["fail_above"], names)

    def _play(self, simulation: Simulation, *, is_shown: bool) -> Ledger:
        started = shown_at = clock.monotonic()
        days = simulation.scenario.days

        def show(share: float, events: int) -> None:
            nonlocal shown_at
            now = clock.monotonic()
            if now - shown_at >= SHOW_SECONDS:
                shown_at = now
                rate = events / max(now - started, 1e-9)
                self.stderr.write(f"\r{share:6.1%}  day {share * days:5.2f} of {days:g}  {rate:9,.0f} events/s", ending="")
                self.stderr.flush()

        ledger = simulation.run(show if is_shown else None)
        if is_shown:
            events, plans = simulation.timeline.events, simulation.plans
            took = clock.monotonic() - started
            self.stderr.write(f"\r{events:,} events and {plans:,} plans in {took:.1f} s".ljust(60))
        return ledger

    def _write(self, found: Report, scenario: Scenario, ledger: Ledger, options: dict[str, Any]) -> None:
        if options["json"] is not None:
            options["json"].write_text(found.to_json(), encoding="utf-8")
        if options["picture"] is not None:
            options["picture"].write_text(draw(scenario, ledger), encoding="utf-8")
