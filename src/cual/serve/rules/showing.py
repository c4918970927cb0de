"""The part of the Workspace that is about samples of pools: what people see of each. Only the front."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cual.data.plain import Value
from cual.serve.rules import pool_columns, pools
from cual.serve.rules.records import Person, PoolRecord, QuestionRecord
from cual.serve.storage.home import Home


class OfSamples:
    """Pictures, texts and columns of samples, and what people are told who label them."""

    home: Home

    def picture(self, pool: int, row: int, large: bool = False) -> Path:
        """The WebP file of a row, `large` where there is such a one; `NotFound` where it has none."""
        return pools.picture(self.home, pool, row, large)

    def text(self, pool: int, row: int) -> str:
        """The text of a row; `NotFound` where it has none."""
        return pools.text(self.home, pool, row)

    def columns(self, pool: int, rows: Iterable[int]) -> dict[int, dict[str, Value]]:
        """What the pool's table says of rows beside features or text; empty where it says nothing."""
        return pool_columns.of(self.home, pool, rows)

    def columns_of(self, pool: int, row: int) -> dict[str, Value]:
        """The same of one row; `NotFound` where it says nothing."""
        return pool_columns.one(self.home, pool, row)

    def with_columns(self, questions: Sequence[QuestionRecord]) -> list[QuestionRecord]:
        """Questions of one adaptation, with the columns of their samples."""
        return pool_columns.with_columns(self.home, questions)

    def set_guidelines(self, pool: int, text: str, person: Person) -> PoolRecord:
        """Tell those who label a pool what they should know: plain text."""
        return pools.set_guidelines(self.home, pool, text, person)

    def skipped(self, pool: int) -> list[dict[str, str]]:
        """Items of a pool that could not be read: ``source`` and ``reason``."""
        return pools.skipped(self.home, pool)
