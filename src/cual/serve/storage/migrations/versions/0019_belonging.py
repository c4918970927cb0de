"""Which workspace a database belongs to, and the checksum of each pool's list of checksums."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "workspace",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.add_column("pools", sa.Column("sums", sa.String(length=64)))
