"""Options of the charts of watching, and the same in words. Plain data, no elements."""

from collections.abc import Sequence
from typing import Any

from cual.serve.rules.watching.evidence import Interval
from cual.serve.rules.watching.records import ClassShare, WatchPoint, WatchRecord
from cual.serve.web.page.charts import INK, LINE, LOOKS, SOFT
from cual.serve.web.page.texts import tr
from cual.serve.web.page.words import day, percent

_NOVEL, _OLD = LOOKS["novel"][1], LOOKS["old"][1]


def share_options(points: Sequence[WatchPoint], most: float | None) -> dict[str, Any]:
    """The share unlike anything known over time, its interval as a band, a line at what is to be expected."""
    times = [1000 * point.start.timestamp() for point in points]
    low = [[at, 100 * point.share.low] for at, point in zip(times, points, strict=True)]
    band = [[at, 100 * (point.share.high - point.share.low)] for at, point in zip(times, points, strict=True)]
    line = {"type": "line", "symbol": "none", "silent": True, "stack": "interval", "lineStyle": {"opacity": 0}}
    limit = {
        "symbol": "none",
        "silent": True,
        "lineStyle": {"width": 2, ":color": INK, "type": "dashed"},
        "label": {"formatter": tr("false alarms at most"), ":color": INK, "position": "insideEndTop"},
        "data": [] if most is None else [{"yAxis": 100 * most}],
    }
    highest = 1.1 * max([0.1, most or 0.0, *(point.share.high for point in points)])
    shares = [[at, 100 * point.share.value] for at, point in zip(times, points, strict=True)]
    return {
        "animation": False,
        "useUTC": True,
        "grid": {"left": 48, "right": 24, "top": 28, "bottom": 32},
        "xAxis": {"type": "time", "axisLabel": {":color": SOFT}},
        "yAxis": {
            "type": "value",
            "name": "%",
            "min": 0,
            "max": round(min(100.0, 100 * highest), 1),
            "axisLabel": {":color": SOFT},
            "nameTextStyle": {":color": SOFT},
            "splitLine": {"lineStyle": {":color": LINE}},
        },
        "series": [
            {**line, "data": low},
            {**line, "data": band, "areaStyle": {"color": _NOVEL, "opacity": 0.25}},
            {
                "type": "line",
                "symbol": "circle",
                "symbolSize": 5,
                "itemStyle": {"color": _NOVEL},
                "data": shares,
                "markLine": limit,
            },
        ],
    }


def share_summary(record: WatchRecord) -> str:
    """The chart in words.

    >>> share_summary(WatchRecord(agent=1, version=0))
    'Nothing has been predicted in this time.'
    """
    points = record.points
    if not points:
        return tr("Nothing has been predicted in this time.")
    highest = max(points, key=lambda point: point.share.value)
    seen = sum(point.seen for point in points)
    unlike = sum(point.unlike for point in points)
    return tr(
        "{seen} samples, {unlike} of them unlike anything known. The share was highest, {share} "
        "({low} to {high}), at {at}.",
        seen=f"{seen:,}",
        unlike=f"{unlike:,}",
        share=percent(highest.share.value),
        low=percent(highest.share.low),
        high=percent(highest.share.high),
        at=day(highest.start),
    )


def now_in_words(record: WatchRecord) -> str:
    """How many of the last samples are unlike anything known, and what that should be."""
    if record.share is None or record.false_alarms is None or record.false_alarms_at_most is None:
        return tr("No sample has been judged by this version yet.")
    return tr(
        "Of the last {seen} samples, {share} are unlike anything known ({interval}). "
        "False alarms explain about {rate}, at most {most}.",
        seen=f"{record.seen:,}",
        share=percent(record.share.value),
        interval=between(record.share),
        rate=percent(record.false_alarms),
        most=percent(record.false_alarms_at_most),
    )


def drift_in_words(record: WatchRecord) -> list[str]:
    """How far known classes have moved, and how their mix has changed."""
    words: list[str] = []
    if record.shift is not None:
        words.append(
            tr(
                "Samples that look known lie {value} deviations further from their classes than validation "
                "samples ({low} to {high}).",
                value=f"{record.shift.value:.2f}",
                low=f"{record.shift.low:.2f}",
                high=f"{record.shift.high:.2f}",
            )
        )
    if record.mix_change is not None:
        words.append(
            tr(
                "Since the first samples of this version, {share} of them have changed class ({interval}).",
                share=percent(record.mix_change.value),
                interval=between(record.mix_change),
            )
        )
    return words or [tr("Too few samples to tell whether known classes have moved.")]


def between(interval: Interval) -> str:
    return tr("{low} to {high}", low=percent(interval.low), high=percent(interval.high))


def mix_options(mix: Sequence[ClassShare]) -> dict[str, Any]:
    """Bars of the class mix, now and among the first samples."""
    names = [class_name(row) for row in mix]
    now = [round(100 * row.now, 2) for row in mix]
    before = [None if row.before is None else round(100 * row.before, 2) for row in mix]
    return {
        "animation": False,
        "grid": {"left": 8, "right": 24, "top": 36, "bottom": 24, "containLabel": True},
        "legend": {"top": 0, "textStyle": {":color": INK}},
        "xAxis": {
            "type": "value",
            "name": "%",
            "axisLabel": {":color": SOFT},
            "nameTextStyle": {":color": SOFT},
            "splitLine": {"lineStyle": {":color": LINE}},
        },
        "yAxis": {
            "type": "category",
            "inverse": True,
            "data": names,
            "axisLabel": {":color": SOFT, "width": 160, "overflow": "truncate"},
        },
        "series": [
            {"type": "bar", "name": tr("now"), "data": now, "itemStyle": {"color": _NOVEL}},
            {"type": "bar", "name": tr("first samples"), "data": before, "itemStyle": {"color": _OLD}},
        ],
    }


def mix_summary(mix: Sequence[ClassShare]) -> str:
    """
    >>> mix_summary([ClassShare("cat", 0.75, None), ClassShare(None, 0.25, None)])
    'Classes of samples that look known: cat 75.0 %, other classes 25.0 %.'
    """
    parts = [
        f"{class_name(row)} {percent(row.now)}"
        if row.before is None
        else tr(
            "{name} {now}, before {before}",
            name=class_name(row),
            now=percent(row.now),
            before=percent(row.before),
        )
        for row in mix
    ]
    return tr("Classes of samples that look known: {classes}.", classes=", ".join(parts))


def class_name(row: ClassShare) -> str:
    return tr("other classes") if row.label is None else str(row.label)
