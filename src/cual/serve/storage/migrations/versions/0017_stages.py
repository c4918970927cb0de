"""Stages of versions, and what candidates would have said in the place of the live version."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("agents", sa.Column("new_versions", sa.String(20), nullable=False, server_default="live"))
    op.add_column("agents", sa.Column("shadow_share", sa.Double(), nullable=False, server_default="1"))
    op.add_column("versions", sa.Column("stage", sa.String(20), nullable=False, server_default="retired"))
    op.add_column("versions", sa.Column("safety", sa.Text()))
    counts = ("compared", "agreed", "judged", "live_unlike", "unlike", "dropped", "failed")
    op.create_table(
        "shadows",
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("live", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in counts),
        sa.Column("pairs", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("agent", "version", "live"),
    )
    op.create_table(
        "shadow_examples",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("live", sa.Integer(), nullable=False),
        sa.Column("live_label", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("picture", sa.Text()),
        sa.Column("text", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_shadow_examples_agent", "shadow_examples", ["agent"])
