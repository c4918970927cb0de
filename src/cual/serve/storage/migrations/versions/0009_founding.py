"""Agents that a worker makes of labelled data: how far they are, where the data lies, and whose job it is."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("agents", sa.Column("state", sa.String(length=20), nullable=False, server_default="ready"))
    op.add_column("agents", sa.Column("error", sa.Text()))
    op.add_column("agents", sa.Column("source", sa.Text()))
    op.add_column("agents", sa.Column("skipped", sa.Integer(), nullable=False, server_default="0"))
    # In words of its own: SQLite adds a column that refers to another table, but no constraint after it.
    op.execute("ALTER TABLE jobs ADD COLUMN agent INTEGER REFERENCES agents (id)")
    op.create_index("ix_jobs_agent", "jobs", ["agent"])
