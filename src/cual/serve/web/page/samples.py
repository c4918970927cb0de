"""How a sample of a pool is shown: the address of its picture, or its words."""

from typing import TYPE_CHECKING

from cual.errors import NotFound
from cual.serve.rules.records import PoolKind, PoolRecord
from cual.serve.web.page.viewer import asked

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace


class Samples:
    """The samples of one pool."""

    def __init__(self, workspace: "Workspace", pool: PoolRecord) -> None:
        self._workspace, self._pool = workspace, pool

    @property
    def kind(self) -> PoolKind:
        return self._pool.kind

    @property
    def address(self) -> str:
        """Of the folder of pictures; a row's number follows."""
        return f"/api/pools/{self._pool.id}/pictures/"

    def picture(self, row: int) -> str | None:
        return f"{self.address}{row}" if self.kind == "pictures" else None

    async def words(self, rows: list[int]) -> dict[int, str]:
        """The texts of a text pool's rows."""
        return await asked(self._read, rows) if rows and self.kind == "text" else {}

    def _read(self, rows: list[int]) -> dict[int, str]:
        texts: dict[int, str] = {}
        for row in rows:
            try:
                texts[row] = self._workspace.text(self._pool.id, row)
            except NotFound:
                texts[row] = f"(row {row} has no text)"
        return texts
