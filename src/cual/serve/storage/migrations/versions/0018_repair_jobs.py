"""Repairs of agents that a worker does: what was asked for, how far it is, and whose job it is."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "repairs",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("person", sa.Integer()),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("proposal", sa.Text()),
        sa.Column("answers", sa.Text()),
        sa.Column("result_version", sa.Integer()),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_repairs_agent", "repairs", ["agent"])
    # In words of its own: SQLite adds a column that refers to another table, but no constraint after it.
    op.execute("ALTER TABLE jobs ADD COLUMN repair INTEGER REFERENCES repairs (id)")
    op.create_index("ix_jobs_repair", "jobs", ["repair"])
