"""The figures of a simulation, by endpoint group and in all: as dataclasses, as JSON and as a table for people."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil

from workers.simulator.ledger import Ledger, Tally
from workers.simulator.scenario import HOUR, TOTAL, Scenario
from workers.simulator.world import Answer


@dataclass(frozen=True)
class Figures:
    """The figures of one group. Shares are 0 to 1, None where nothing was there to take a share of.

    `availability` is the share of the wanted instance-time that was served, `at_least_one` the share of endpoint-time
    with an instance serving; both count from an endpoint's first InService, or from its creation if there was none.
    `in_service_*` are seconds from the creation. `wasted` are refused calls made while a mark was known to hold;
    `preferred_share` is the share of serving instance-time on the most wanted type. `survived` interruptions left another
    instance serving. `spend` is in US dollars.
    """

    endpoints: int
    availability: float | None
    at_least_one: float | None
    in_service_p50: float | None
    in_service_p90: float | None
    in_service_max: float | None
    failed: int
    rolled_back: int
    launches: int
    refused: int
    wasted: int
    throttled: int
    lost: int
    preferred_share: float | None
    moves: int
    moves_undone: int
    crashes: int
    interruptions: int
    survived: int
    spend: float
    spend_by_type: dict[str, float]
    hours_by_type: dict[str, float]


@dataclass(frozen=True)
class Report:
    """A simulation's figures. `groups` has the groups in the scenario's order and `total` last."""

    title: str
    seed: int
    days: float
    groups: dict[str, Figures]

    @property
    def total(self) -> Figures:
        """Over all groups."""
        return self.groups[TOTAL]

    def to_json(self) -> str:
        """The same report is the same text, byte for byte."""
        return json.dumps(asdict(self), indent=2) + "\n"


def report(scenario: Scenario, ledger: Ledger) -> Report:
    """What a closed ledger comes to."""
    everything = Tally()
    groups = {}
    for group in scenario.groups:
        everything.add(ledger.tallies[group.name])
        groups[group.name] = _figures(ledger.tallies[group.name], ledger.endpoints[group.name])
    groups[TOTAL] = _figures(everything, ledger.endpoints.total())
    return Report(scenario.title, scenario.seed, scenario.days, groups)


def _figures(tally: Tally, endpoints: int) -> Figures:
    return Figures(
        endpoints=endpoints,
        availability=_share(tally.served_seconds, tally.wanted_seconds),
        at_least_one=_share(tally.up_seconds, tally.counted_seconds),
        in_service_p50=_percentile(tally.in_service_seconds, 0.5),
        in_service_p90=_percentile(tally.in_service_seconds, 0.9),
        in_service_max=_percentile(tally.in_service_seconds, 1.0),
        failed=tally.failed,
        rolled_back=tally.rolled_back,
        launches=tally.calls[Answer.LAUNCHED],
        refused=tally.calls[Answer.REFUSED],
        wasted=tally.refused_in_spite_of_mark,
        throttled=tally.calls[Answer.THROTTLED],
        lost=tally.calls[Answer.LOST],
        preferred_share=_share(tally.preferred_seconds, sum(tally.serving_by_type.values())),
        moves=tally.moves,
        moves_undone=tally.moves_undone,
        crashes=tally.crashes,
        interruptions=tally.interruptions,
        survived=tally.survived,
        spend=round(sum(tally.spend_by_type.values()), 2),
        spend_by_type={kind: round(usd, 2) for kind, usd in sorted(tally.spend_by_type.items())},
        hours_by_type={kind: round(seconds / HOUR, 2) for kind, seconds in sorted(tally.serving_by_type.items())},
    )


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def _percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share does not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[max(ceil(share * len(ordered)) - 1, 0)], 1)


def to_text(found: Report) -> str:
    """The report as tables for people."""
    head = f"{found.title}: {found.days:g} day(s), {found.total.endpoints:,} endpoints, seed {found.seed}"
    rows = [_row(name, figures) for name, figures in found.groups.items() if name != TOTAL or len(found.groups) > 2]
    return "\n".join([head, "", *_table(_HEADS, rows), "", *_table(_SPEND_HEADS, _spend_rows(found.total)), ""])


_HEADS = (
    *("group", "endpoints", "available", "at least 1", "InService p50", "p90", "max", "failed", "undone", "launches"),
    *("refused", "wasted", "thr./lost", "preferred", "moves", "crashes", "taken/survived", "USD"),
)
_SPEND_HEADS = ("instance type", "serving hours", "USD", "of all")


def _row(name: str, of: Figures) -> tuple[str, ...]:
    times = (of.in_service_p50, of.in_service_p90, of.in_service_max)
    return (
        *(name, f"{of.endpoints:,}", to_percent(of.availability), to_percent(of.at_least_one), *map(_duration, times)),
        *(f"{of.failed:,}", f"{of.rolled_back:,}", f"{of.launches:,}", f"{of.refused:,}", f"{of.wasted:,}"),
        *(f"{of.throttled:,}/{of.lost:,}", to_percent(of.preferred_share), f"{of.moves:,}", f"{of.crashes:,}"),
        *(f"{of.interruptions:,}/{of.survived:,}", f"{of.spend:,.2f}"),
    )


def _spend_rows(total: Figures) -> list[tuple[str, ...]]:
    return [
        (kind, f"{total.hours_by_type.get(kind, 0.0):,.1f}", f"{usd:,.2f}", to_percent(_share(usd, total.spend)))
        for kind, usd in total.spend_by_type.items()
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column to the left, figures to the right."""
    widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
    return ["  ".join(_pad(cell, widths, place) for place, cell in enumerate(line)) for line in (heads, *rows)]


def _pad(cell: str, widths: Sequence[int], place: int) -> str:
    return cell.rjust(widths[place]) if place else cell.ljust(widths[place])


def to_percent(share: float | None) -> str:
    """For people; rounded down, so that 100 % means all of it."""
    return "-" if share is None else f"{int(share * 100_000) / 1000:.3f} %"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
