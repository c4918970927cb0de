"""Pictures and texts as features, and answers put back into the rows that were sent. Encoding is elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cual.errors import CualError
from cual.serve.web.api.answers import Rows
from cual.serve.web.api.raw import Raw, check_picture
from cual.serve.web.predictions.encoding import Encoded, Encodings
from cual.types import AnyArray


@dataclass(frozen=True)
class Features:
    """Features of those rows of a request that could be encoded, and what is wrong with the others."""

    X: AnyArray
    rows: list[int]
    """Which row of the request each row of `X` is."""
    failed: dict[int, CualError]
    sent: Raw | None = None

    def spread(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """An answer about `X` as one about all that was sent: null where a row could not be encoded.

        >>> held = Features(np.zeros((1, 2)), [1], {0: CualError("no")})
        >>> held.spread({"version": 3, "labels": Rows(1, 1, lambda rows: ["a"][rows])})["labels"]
        [None, 'a']
        """
        failed = [
            {"row": row, "error": type(error).__name__, "detail": str(error)}
            for row, error in sorted(self.failed.items())
        ]
        spread = {
            name: self._spread(value) if isinstance(value, Rows) else value for name, value in fields.items()
        }
        return {**spread, "failed": failed}

    def _spread(self, rows: Rows) -> list[Any]:
        values: list[Any] = [None] * (len(self.rows) + len(self.failed))
        for row, value in zip(self.rows, rows.take(slice(0, rows.n)), strict=True):
            values[row] = value
        return values


async def encoded(encodings: Encodings, encoder: str, sent: Raw, person: int) -> Features:
    """Features of what was sent; an error where there are none, or where the one thing sent is wrong."""
    failed: dict[int, CualError] = {
        row: error
        for row, item in enumerate(sent.items)
        if sent.kind == "image" and (error := check_picture(item)) is not None
    }
    rows = [row for row in range(len(sent.items)) if row not in failed]
    outcomes: list[Encoded] = []
    if rows:
        outcomes = await encodings.encode(encoder, sent.kind, [sent.items[row] for row in rows], person)
    good: dict[int, Any] = {}
    for row, outcome in zip(rows, outcomes, strict=True):
        if isinstance(outcome, CualError):
            failed[row] = outcome
        else:
            good[row] = outcome
    if not good:
        first = failed[min(failed)]
        what = "picture" if sent.kind == "image" else "text"
        refusal = f"the {what} cannot" if sent.single else f"none of the {len(failed)} {what}s can"
        raise type(first)(f"{refusal} be used: {first}")
    return Features(np.stack(list(good.values())), list(good), failed, sent)
