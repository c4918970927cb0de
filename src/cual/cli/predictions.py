"""`cual predict`'s rows: label, probability and novelty of each sample, and their CSV."""

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cual.agent import Agent
from cual.cli.output import err
from cual.data.table import Table
from cual.errors import TooFewSamples
from cual.export.text import harmless
from cual.storage import write_bytes
from cual.types import Progress, Row

COLUMNS: tuple[str, ...] = ("id", "label", "probability", "novelty", "novel")
AT_ONCE = 4096


def predicted(agent: Agent, table: Table, progress: Progress) -> list[Row]:
    """One row per sample, in the order of the file; `novel` is empty where the agent can set no threshold."""
    try:
        threshold = agent.threshold.value
    except TooFewSamples as error:
        err.print(f"the column novel stays empty: {error}", style="yellow", highlight=False, soft_wrap=True)
        threshold = None
    n = len(table)
    ids = np.arange(n) if table.ids is None else table.ids
    rows: list[Row] = []
    for start in range(0, n, AT_ONCE):
        X = table.X[start : start + AT_ONCE]
        columns = (
            ids[start : start + AT_ONCE],
            agent.predict(X),
            agent.predict_proba(X).max(axis=1),
            agent.novelty(X),
        )
        for sample, label, probability, novelty in zip(*(column.tolist() for column in columns), strict=True):
            novel = "" if threshold is None else int(novelty > threshold)
            values = (sample, label, f"{probability:.6g}", f"{novelty:.6g}", novel)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
        progress("predicting", len(rows), n)
    return rows


def write_csv(rows: Sequence[Row], path: Path | None) -> None:
    """To a file in one step, or to standard output; ids and labels are no formulas (`cual.export.text`)."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "id": harmless(row["id"]), "label": harmless(row["label"])} for row in rows)
    if path is None:
        sys.stdout.write(text.getvalue())
    else:
        write_bytes(path, text.getvalue().encode())
