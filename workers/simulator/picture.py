"""The timeline of a simulation as one SVG: who served against what was wanted, the marks, and the launch calls.

title, key figures, legend
+-----------------------------------------------+
| serving instances by type, stacked; wanted    |  one line
+-----------------------------------------------+
| launches up, refusals down, by type           |  a lane each
+-----------------------------------------------+
| marks                                         |  a row for each type, zone and market that had one
+-----------------------------------------------+
time
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from workers.simulator.ledger import Ledger
from workers.simulator.report import report, to_percent
from workers.simulator.scenario import DAY, HOUR, Scenario
from workers.simulator.series import counts, means, nice_steps, stacked
from workers.simulator.svg import GREY, INK, RULE, Drawing, Point
from workers.simulator.weather import Key
from workers.simulator.world import Answer

BINS = 700
WIDTH, LEFT, RIGHT = 1200.0, 190.0, 28.0
PLOT = WIDTH - LEFT - RIGHT
HEAD, MAIN_HEIGHT, LANE_HEIGHT, ROW_HEIGHT, GAP, FOOT = 118.0, 320.0, 46.0, 17.0, 44.0, 44.0
ROWS_LIMIT = 40
TYPES_LIMIT = 6

# Okabe and Ito's colours, told apart with any kind of colour vision; vermillion is kept for refusals.
COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7", "#F0E442")
OTHERS = "#9CA3AF"
REFUSED = "#D55E00"
OUTAGE = "#374151"
OTHER_TYPES = "other types"


@dataclass(frozen=True)
class _Scale:
    """From seconds to pixels across, for all panels."""

    duration: float

    def x(self, at: float) -> float:
        return LEFT + PLOT * at / self.duration


def draw(scenario: Scenario, ledger: Ledger) -> str:
    """The SVG of a closed ledger."""
    kinds = _kinds(scenario, ledger)
    rows = _mark_rows(scenario, ledger)
    lanes_top = HEAD + MAIN_HEIGHT + GAP
    marks_top = lanes_top + len(kinds) * LANE_HEIGHT + GAP
    bottom = marks_top + max(len(rows), 1) * ROW_HEIGHT
    picture = Drawing(WIDTH, bottom + FOOT, f"Timeline: {scenario.title}")
    scale = _Scale(scenario.duration)
    _draw_head(picture, scenario, ledger, kinds)
    _draw_outages(picture, scenario, scale, bottom)
    _draw_time(picture, scenario, scale, bottom)
    _draw_fleet(picture, scenario, ledger, kinds)
    _draw_lanes(picture, scenario, ledger, kinds, lanes_top)
    _draw_marks(picture, scale, ledger, rows, kinds, marks_top)
    return picture.to_text()


def _kinds(scenario: Scenario, ledger: Ledger) -> dict[str, str]:
    """The types that served or were asked for, in the scenario's order, with their colours; the smaller ones together."""
    hours = report(scenario, ledger).total.hours_by_type
    asked = {key[0] for _, key, _ in ledger.calls}
    seen = [each.name for each in scenario.types if each.name in asked or hours.get(each.name)]
    own = sorted(seen, key=lambda name: -hours.get(name, 0.0))[:TYPES_LIMIT]
    shown = [name for name in seen if name in own]
    colours = dict(zip(shown, COLOURS, strict=False))
    return colours if len(seen) == len(shown) else {**colours, OTHER_TYPES: OTHERS}


def _shown_as(name: str, kinds: dict[str, str]) -> str:
    return name if name in kinds else OTHER_TYPES


def _mark_rows(scenario: Scenario, ledger: Ledger) -> list[Key]:
    """Keys that were marked, in the scenario's order."""
    marked = {spell.key for spell in ledger.marks}
    order = {each.name: place for place, each in enumerate(scenario.types)}
    return sorted(marked, key=lambda key: (order[key[0]], key[2], key[1]))[:ROWS_LIMIT]


def _draw_head(picture: Drawing, scenario: Scenario, ledger: Ledger, kinds: dict[str, str]) -> None:
    total = report(scenario, ledger).total
    facts = (
        *(f"{total.endpoints:,} endpoints", f"{scenario.days:g} day{'s' * (scenario.days != 1)}", f"seed {scenario.seed}"),
        *(f"{to_percent(total.availability)} available", f"{to_percent(total.preferred_share)} on the preferred type"),
        *(f"{total.launches:,} launches", f"{total.refused:,} refused", f"{total.spend:,.0f} USD"),
    )
    picture.text((28, 38), scenario.title, size=22, weight="600")
    picture.text((28, 62), "   ·   ".join(facts), size=12.5, colour=GREY)
    left = LEFT
    for name, colour in kinds.items():
        picture.box(left, 82, 12, 12, colour)
        picture.text((left + 18, 92.5), name)
        left += 40 + 7.1 * len(name)
    picture.line((left, 88), (left + 18, 88), INK, 1.8)
    picture.text((left + 24, 92.5), "wanted")
    if scenario.outages:
        picture.box(left + 92, 82, 12, 12, OUTAGE, 0.14)
        picture.text((left + 110, 92.5), "provider outage")


def _draw_outages(picture: Drawing, scenario: Scenario, scale: _Scale, bottom: float) -> None:
    for each in scenario.outages:
        start, end = scale.x(min(each.start, scale.duration)), scale.x(min(each.end, scale.duration))
        picture.box(start, HEAD, max(end - start, 1.0), bottom - HEAD, OUTAGE, 0.14)


def _draw_time(picture: Drawing, scenario: Scenario, scale: _Scale, bottom: float) -> None:
    """Days, or hours where there are few days."""
    step = DAY if scenario.days > 3 else 6 * HOUR if scenario.days > 1 else 2 * HOUR
    while scenario.duration / step > 16:
        step *= 2
    at = 0.0
    while at <= scenario.duration:
        picture.line((scale.x(at), HEAD), (scale.x(at), bottom))
        picture.text((scale.x(at), bottom + 18), f"{at / (DAY if step >= DAY else HOUR):g}", anchor="middle", colour=GREY)
        at += step
    unit = "days" if step >= DAY else "hours"
    picture.text((LEFT + PLOT / 2, bottom + 36), f"{unit} since the start", anchor="middle", colour=GREY)


def _draw_fleet(picture: Drawing, scenario: Scenario, ledger: Ledger, kinds: dict[str, str]) -> None:
    changes: dict[str, list[tuple[float, int]]] = {name: [] for name in kinds}
    for at, name, change in ledger.serving_changes:
        changes[_shown_as(name, kinds)].append((at, change))
    edges = stacked([means(changes[name], scenario.duration, BINS) for name in kinds])
    wanted = means(ledger.wanted_changes, scenario.duration, BINS)
    steps = nice_steps(max([*wanted, *(edges[-1] if edges else [])], default=0.0) * 1.02)
    bottom = HEAD + MAIN_HEIGHT

    def y(value: float) -> float:
        return bottom - MAIN_HEIGHT * value / steps[-1]

    for value in steps:
        picture.line((LEFT, y(value)), (LEFT + PLOT, y(value)), RULE if value else GREY)
        picture.text((LEFT - 10, y(value) + 4), f"{value:,.0f}", anchor="end", colour=GREY)
    below = [0.0] * BINS
    for edge, colour in zip(edges, kinds.values(), strict=True):
        upper = _steps_along([y(value) for value in edge])
        lower = _steps_along([y(value) for value in below])
        picture.area([*upper, *reversed(lower)], colour)
        below = edge
    picture.curve(_steps_along([y(value) for value in wanted]), INK, 1.6)
    _panel_title(picture, HEAD, "Instances", "serving, by type,", "against wanted")


def _steps_along(heights: Sequence[float]) -> list[Point]:
    """A point at the middle of every bin, and one at both ends of the plot."""
    width = PLOT / len(heights)
    middle = [(LEFT + (place + 0.5) * width, height) for place, height in enumerate(heights)]
    return [(LEFT, heights[0]), *middle, (LEFT + PLOT, heights[-1])]


def _draw_lanes(picture: Drawing, scenario: Scenario, ledger: Ledger, kinds: dict[str, str], top: float) -> None:
    """Calls by type: bars up for launches, down for refusals; the area under a root grows slowly, so few are seen too."""
    bins = BINS // 2
    up: dict[str, list[float]] = {name: [] for name in kinds}
    down: dict[str, list[float]] = {name: [] for name in kinds}
    for at, key, answer in ledger.calls:
        (up if answer is Answer.LAUNCHED else down)[_shown_as(key[0], kinds)].append(at)
    found = {
        name: (counts(up[name], scenario.duration, bins), counts(down[name], scenario.duration, bins)) for name in kinds
    }
    high = max((max(bars) for pair in found.values() for bars in pair), default=0) or 1
    for place, (name, colour) in enumerate(kinds.items()):
        axis = top + (place + 0.5) * LANE_HEIGHT
        for bars, direction, fill in zip(found[name], (-1, 1), (colour, REFUSED), strict=True):
            _draw_bars(picture, bars, axis, direction * (LANE_HEIGHT / 2 - 3) / sqrt(high), fill)
        picture.line((LEFT, axis), (LEFT + PLOT, axis), GREY, 0.6)
        picture.text((LEFT - 10, axis + 4), name, anchor="end", size=11, colour=GREY)
    minutes = scenario.duration / bins / 60
    picture.text((LEFT, top - 12), "Launch calls", weight="600")
    words = (
        f"launched (up) and refused, throttled or unanswered (down); tallest bar {high:,} in {minutes:.3g} min, root scale"
    )
    picture.text((LEFT + 88, top - 12), words, colour=GREY)


def _draw_bars(picture: Drawing, bars: Sequence[int], axis: float, unit: float, fill: str) -> None:
    width = PLOT / len(bars)
    for place, count in enumerate(bars):
        if count:
            height = max(abs(unit) * sqrt(count), 2.5)
            picture.box(LEFT + place * width, axis - height if unit < 0 else axis, max(width - 0.4, 0.8), height, fill)


def _draw_marks(
    picture: Drawing, scale: _Scale, ledger: Ledger, rows: Sequence[Key], kinds: dict[str, str], top: float
) -> None:
    picture.text((LEFT, top - 12), "Capacity marks", weight="600")
    words = "while an offering is remembered as short and launches skip it" if rows else "none: nothing was ever short"
    picture.text((LEFT + 112, top - 12), words, colour=GREY)
    places = {key: top + place * ROW_HEIGHT for place, key in enumerate(rows)}
    for key, y in places.items():
        picture.line((LEFT, y + ROW_HEIGHT), (LEFT + PLOT, y + ROW_HEIGHT), RULE, 0.6)
        market = "" if key[2] == "on-demand" else f" {key[2]}"
        picture.text((LEFT - 10, y + ROW_HEIGHT - 4.5), f"{key[0]} {key[1]}{market}", anchor="end", size=11, colour=GREY)
    for spell in ledger.marks:
        if spell.key in places:
            start, end = scale.x(spell.start), scale.x(spell.end)
            colour = kinds[_shown_as(spell.key[0], kinds)]
            picture.box(start, places[spell.key] + 3, max(end - start, 0.7), ROW_HEIGHT - 5, colour)


def _panel_title(picture: Drawing, top: float, title: str, *lines: str) -> None:
    picture.text((28, top + 14), title, weight="600")
    for place, line in enumerate(lines, start=1):
        picture.text((28, top + 14 + 17 * place), line, size=11, colour=GREY)
