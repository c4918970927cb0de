"""How a sample of a pool is shown: the address of its picture, its words, or what it is most alike."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cual.errors import NotFound
from cual.serve.rules.records import PoolKind, PoolRecord, QuestionRecord
from cual.serve.rules.views import Alike
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import asked

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace


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

    async def words(self, rows: list[int]) -> dict[int, str]:
        """The texts of a text pool's rows."""
        none = tr("(row {row} has no text)", row="{row}")
        return await asked(self._read, rows, none) if rows and self.kind == "text" else {}

    async def of_questions(self, questions: Sequence[QuestionRecord]) -> dict[int, str]:
        """Texts by row; where there are only features, the known samples that are most alike, in words."""
        if self.kind != "features" or not questions:
            return await self.words([q.row for q in questions])
        task = questions[0].adaptation
        alike = await asked(self._workspace.alike, task, [q.row for q in questions])
        return {q.row: f"{q.sample}\n{_likeness(alike[q.row])}" for q in questions if alike.get(q.row)}

    def _read(self, rows: list[int], none: str) -> dict[int, str]:
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
