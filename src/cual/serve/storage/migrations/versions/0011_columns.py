"""Which columns came with a pool's samples, for people to read; their values are in files."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("pools", sa.Column("shown", sa.Text()))
