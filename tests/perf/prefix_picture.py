"""The picture of `tests.perf.prefix`: for each load, how many calls had their first token by when, by strategy."""

from collections.abc import Mapping
from math import log10

from tests.perf.prefix_world import Outcome
from workers.simulator.svg import GREY, INK, RULE, Drawing, Point

WIDTH, PANEL_HEIGHT, LEFT, RIGHT, HEAD, GAP = 900.0, 250.0, 70.0, 280.0, 104.0, 80.0
PLOT = WIDTH - LEFT - RIGHT
LOW, HIGH = 0.02, 3.0
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
COLOURS = {
    "RANDOM": "#9CA3AF",
    "LEAST_OUTSTANDING_REQUESTS": "#E69F00",
    "PREFIX_AWARE": "#0072B2",
    "KV_AWARE": "#009E73",
}
"""Okabe and Ito's, told apart with any kind of colour vision."""


def draw(panels: Mapping[str, Mapping[str, Outcome]]) -> str:
    """The SVG: a panel for each load."""
    height = HEAD + len(panels) * (PANEL_HEIGHT + GAP)
    picture = Drawing(WIDTH, height, "Time to the first token by routing strategy")
    picture.text((LEFT, 34), "Time to the first token by routing strategy", size=20, weight="bold")
    picture.text((LEFT, 56), "Share of the calls that had theirs; seven simulated engines, virtual time", colour=GREY)
    for place, (name, results) in enumerate(panels.items()):
        _panel(picture, name, results, HEAD + place * (PANEL_HEIGHT + GAP))
    return picture.to_text()


def _panel(picture: Drawing, name: str, results: Mapping[str, Outcome], top: float) -> None:
    bottom = top + PANEL_HEIGHT
    picture.text((LEFT, top - 8), name, size=14, weight="bold")
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = bottom - part * PANEL_HEIGHT
        picture.line((LEFT, at), (LEFT + PLOT, at), RULE)
        picture.text((LEFT - 8, at + 4), f"{part:.0%}", anchor="end", colour=GREY)
    for seconds in TICKS:
        picture.line((_x(seconds), bottom), (_x(seconds), bottom + 5), GREY)
        picture.text((_x(seconds), bottom + 20), _written(seconds), anchor="middle", colour=GREY)
    for place, (strategy, outcome) in enumerate(results.items()):
        width = 2.0 + 1.2 * (len(results) - 1 - place)  # curves that fall together stay visible under each other
        picture.curve(_steps(outcome, bottom), COLOURS[strategy], width)
        _legend(picture, strategy, outcome, (LEFT + PLOT + 24, top + 14 + place * 58))


def _legend(picture: Drawing, strategy: str, outcome: Outcome, at: Point) -> None:
    x, y = at
    picture.line((x, y - 4), (x + 18, y - 4), COLOURS[strategy], 3)
    picture.text((x + 26, y), strategy, size=11, weight="bold", colour=INK)
    p50, p90 = outcome.quantile(0.5) * 1000, outcome.quantile(0.9) * 1000
    picture.text((x + 26, y + 16), f"hit rate {outcome.hit_rate:.0%}", size=11, colour=GREY)
    picture.text((x + 26, y + 31), f"P50 {p50:,.0f} ms, P90 {p90:,.0f} ms", size=11, colour=GREY)


def _steps(outcome: Outcome, bottom: float) -> list[Point]:
    """The distribution as a line of at most 200 points."""
    parts = [step / 200 for step in range(1, 200)]
    return [(_x(outcome.quantile(part)), bottom - part * PANEL_HEIGHT) for part in parts]


def _x(seconds: float) -> float:
    place = log10(min(max(seconds, LOW), HIGH) / LOW) / log10(HIGH / LOW)
    return LEFT + place * PLOT


def _written(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"
