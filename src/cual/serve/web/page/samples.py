"""How a sample of a pool is shown: its picture's address, its words, what it is alike, what its table says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cual.data.plain import Value
from cual.errors import NotFound
from cual.serve.rules.records import PoolKind, PoolRecord, QuestionRecord
from cual.serve.rules.views import Alike
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import asked
from cual.types import Label

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace

Cells = tuple[tuple[str, str], ...]
"""Columns and what they say, in words."""


@dataclass(frozen=True)
class Shown:
    """What stands for a sample where it has no picture, and beside it."""

    words: str
    columns: Cells = ()


class Samples:
    """The samples of one pool."""

    def __init__(self, workspace: "Workspace", pool: PoolRecord) -> None:
        self._workspace, self._pool = workspace, pool

    @property
    def kind(self) -> PoolKind:
        """What can be shown of them; of a pool that was deleted, nothing."""
        return "features" if self._pool.state == "removed" else self._pool.kind

    @property
    def address(self) -> str:
        """Of the folder of pictures; a row's number follows."""
        return f"/api/pools/{self._pool.id}/pictures/"

    def picture(self, row: int) -> str | None:
        return f"{self.address}{row}" if self.kind == "pictures" else None

    async def of_questions(self, questions: Sequence[QuestionRecord]) -> dict[int, Shown]:
        """What stands for the samples of an adaptation's questions, by row."""
        if not questions:
            return {}
        return await self.of_rows(questions[0].adaptation, {q.row: q.sample for q in questions})

    async def of_rows(self, adaptation: int, samples: Mapping[int, Label]) -> dict[int, Shown]:
        """What stands for samples, by row: the text, or the id and, where that is known, what is most alike."""
        rows = list(samples)
        words = {row: str(sample) for row, sample in samples.items()}
        if self.kind == "text":
            words |= await asked(self._texts, rows, tr("(row {row} has no text)", row="{row}"))
        elif self.kind == "features":
            alike = await asked(self._workspace.alike, adaptation, rows)
            words |= {row: f"{words[row]}\n{_likeness(most)}" for row, most in alike.items() if most}
        columns = await asked(self._workspace.columns, self._pool.id, rows) if self._pool.columns else {}
        return {row: Shown(words[row], _cells(columns.get(row, {}))) for row in rows}

    def _texts(self, rows: list[int], none: str) -> dict[int, str]:
        texts: dict[int, str] = {}
        for row in rows:
            try:
                texts[row] = self._workspace.text(self._pool.id, row)
            except NotFound:
                texts[row] = none.format(row=row)
        return texts


def _likeness(alike: Sequence[Alike]) -> str:
    """The classes of the most alike known samples, the most alike first.

    >>> print(_likeness([("cat", 0.934, None), ("dog", 0.5, 7)]))
    Most alike known samples (1 is the same): cat 0.93, dog 0.50 (row 7)
    """
    each: list[str] = []
    for label, cosine, row in alike:
        words = f"{label} {cosine:.2f}"
        each.append(words if row is None else tr("{words} (row {row})", words=words, row=row))
    return tr("Most alike known samples (1 is the same): {classes}", classes=", ".join(each))


def _cells(columns: Mapping[str, Value]) -> Cells:
    """Columns that say something, in words.

    >>> _cells({"colour": "red", "price": 1.5, "sold": True, "by": None, "note": " "})
    (('colour', 'red'), ('price', '1.5'), ('sold', 'yes'))
    """
    told = {name: _in_words(value) for name, value in columns.items()}
    return tuple((name, words) for name, words in told.items() if words.strip())


def _in_words(value: Value) -> str:
    if isinstance(value, bool):
        return tr("yes") if value else tr("no")
    return "" if value is None else str(value)
