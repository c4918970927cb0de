"""How long pools and versions are kept that nobody needs any more, where an administrator has said so."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "retention",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("pools_days", sa.Integer()),
        sa.Column("versions", sa.Integer()),
        sa.Column("person", sa.Integer()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
