"""What is to become of arriving samples: kept, counted again, or passed over. Decided here, written elsewhere.

A decision depends on what a sample is and on what is kept, never on chance: sent again, it is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cual.serve.rules.inbox.near import BLOCK, Latest, unit
from cual.serve.rules.inbox.records import Arrivals, Fate, Policy
from cual.types import AnyArray


@dataclass
class Plan:
    """What becomes of each sample of a request."""

    fates: list[Fate]
    new: list[int]
    """Rows of the request that are kept."""
    times: dict[int, int]
    """How often each of these came in this request, by row."""
    again: dict[int, int] = field(default_factory=dict[int, int])
    """How often samples came that were there before, by their ids."""
    units: list[AnyArray] = field(default_factory=list[AnyArray])
    """Features of the new rows, of length one."""


def is_chosen(digest: str, share: float) -> bool:
    """Whether a known-looking sample is among the share that is kept: by its digest, so that a retry agrees.

    >>> is_chosen("00" * 32, 0.1), is_chosen("ff" * 32, 0.1), is_chosen("ff" * 32, 1.0), is_chosen("00" * 32, 0)
    (True, False, True, False)
    """
    return int(digest[:13], 16) / 16**13 < share


def plan(arrivals: Arrivals, kept: Mapping[str, int], latest: Latest, policy: Policy) -> Plan:
    """Decide about all samples of a request, in their order.

    Parameters
    ----------
    kept
        Ids of samples that are kept already, by digest: exact duplicates.
    latest
        What arriving samples are compared with for near-duplicates.
    """
    result = Plan(["kept"] * len(arrivals), [], {})
    first: dict[str, int] = {}  # the row in which each digest came first
    open_rows: list[int] = []
    for row, digest in enumerate(arrivals.digests):
        if digest in kept:
            result.fates[row] = "again"
            result.again[kept[digest]] = result.again.get(kept[digest], 0) + 1
        elif arrivals.verdicts[row] == "known" and not is_chosen(digest, policy.known_share):
            result.fates[row] = "passed over"
        elif digest in first:
            result.fates[row] = "again"
        else:
            first[digest] = row
            open_rows.append(row)
    stands_for = _without_near(arrivals, open_rows, latest, policy.near, result)
    for row, digest in enumerate(arrivals.digests):
        if result.fates[row] == "again" and digest not in kept and digest in first and row != first[digest]:
            _count_again(result, stands_for[first[digest]])
    return result


def _without_near(
    arrivals: Arrivals, rows: list[int], latest: Latest, near: float | None, result: Plan
) -> dict[int, int]:
    """Keep those rows that are like no other; which row each stands for, or −id of a sample that was there."""
    stands_for: dict[int, int] = {}
    new = Latest()
    """Those of this request, by their rows."""
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        units = unit(arrivals.X[block])
        if near is None:
            chosen = block
        else:
            before = latest.nearest(units, near)
            stands_for |= {row: -id for row, id in zip(block, before, strict=True) if id >= 0}
            within = new.nearest(units, near)
            stands_for |= {
                row: other
                for row, other in zip(block, within, strict=True)
                if other >= 0 and row not in stands_for
            }
            chosen = _unlike_each_other(block, units, near, stands_for)
        wanted = set(chosen)
        kept = units[[place for place, row in enumerate(block) if row in wanted]]
        new.add(chosen, kept)
        result.new += chosen
        result.units += list(kept)
        result.times |= dict.fromkeys(chosen, 0)
        for row in block:
            if stands_for.setdefault(row, row) != row:
                result.fates[row] = "again"
            _count_again(result, stands_for[row])
    return stands_for


def _unlike_each_other(block: list[int], units: AnyArray, near: float, stands_for: dict[int, int]) -> list[int]:
    """Those rows of a block that stand for nothing yet and are not nearly an earlier one of them."""
    cosines = units @ units.T
    places: list[int] = []
    for place, row in enumerate(block):
        if row in stands_for:
            continue
        best = max(places, key=lambda other: cosines[place, other], default=None)
        if best is not None and cosines[place, best] > near:
            stands_for[row] = block[best]
        else:
            places.append(place)
    return [block[place] for place in places]


def _count_again(result: Plan, target: int) -> None:
    if target < 0:
        result.again[-target] = result.again.get(-target, 0) + 1
    else:
        result.times[int(target)] += 1
