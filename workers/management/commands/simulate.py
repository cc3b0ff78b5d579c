"""`manage.py simulate SCENARIO.toml`: weeks of capacity weather over a whole fleet, in seconds and without a cloud."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.core import clock
from workers.simulator.engine import Simulation
from workers.simulator.gate import BoundError, misses, read_bound
from workers.simulator.parse import parse
from workers.simulator.picture import draw
from workers.simulator.report import report, to_text
from workers.simulator.timeline import Progress
from workers.simulator.toml_table import ScenarioError

SHOW_SECONDS = 0.5


class Command(BaseCommand):
    """Plays a scenario by the planner that runs in production; exit code 1 when a bound is not kept."""

    help = "Play a scenario of shortages, interruptions and demand against the planner, and report what it comes to."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("scenario", type=Path, help="a TOML file; deploy/scenarios/ has examples")
        parser.add_argument("--days", type=float, help="play so many days instead of what the scenario says")
        parser.add_argument("--seed", type=int, help="draw with this seed instead of the scenario's")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
        parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the timeline")
        parser.add_argument(
            "--fail-below", action="append", default=[], metavar="METRIC=NUMBER", help="a bound; GROUP.METRIC for one group"
        )
        parser.add_argument("--fail-above", action="append", default=[], metavar="METRIC=NUMBER", help="an upper bound")
        parser.add_argument("--progress", action="store_true", help="show progress even when nobody seems to be watching")

    def handle(self, *args: Any, scenario: Path, json: Path | None, picture: Path | None, **options: Any) -> None:
        try:
            bounds = [read_bound(each, is_upper=False) for each in options["fail_below"]]
            bounds += [read_bound(each, is_upper=True) for each in options["fail_above"]]
            played = parse(scenario.read_text(encoding="utf-8"), days=options["days"], seed=options["seed"])
        except (OSError, UnicodeDecodeError, BoundError) as error:
            raise CommandError(str(error)) from error
        except ScenarioError as error:
            raise CommandError(f"{scenario} is no scenario:\n{error}") from error
        simulation = Simulation(played)
        ledger = simulation.run(self._progress(played.days, is_wanted=options["progress"]))
        found = report(played, ledger)
        self.stdout.write(to_text(found))
        if json is not None:
            json.write_text(found.to_json(), encoding="utf-8")
        if picture is not None:
            picture.write_text(draw(played, ledger), encoding="utf-8")
        try:
            missed = misses(found, bounds)
        except BoundError as error:
            raise CommandError(str(error)) from error
        if missed:
            raise CommandError("Not kept: " + "; ".join(missed) + ".")

    def _progress(self, days: float, *, is_wanted: bool) -> Progress | None:
        """A line that is written over, on standard error."""
        if not (is_wanted or sys.stderr.isatty()):
            return None
        started = clock.monotonic()
        shown = [started]

        def show(share: float, events: int) -> None:
            now = clock.monotonic()
            if now - shown[0] >= SHOW_SECONDS:
                shown[0] = now
                rate = events / max(now - started, 1e-9)
                self.stderr.write(f"\r{share:6.1%}  day {share * days:5.2f}  {rate:9,.0f} events/s", ending="")

        return show
