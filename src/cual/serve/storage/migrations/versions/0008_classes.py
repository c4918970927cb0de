"""What people are told of a class while they label, which key it has for whom, and the guidelines of a pool."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("pools", sa.Column("guidelines", sa.Text()))
    op.create_table(
        "class_notes",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("colour", sa.String(length=7)),
        sa.Column("examples", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("agent", "label"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "class_keys",
        sa.Column("person", sa.Integer(), nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=1), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("person", "agent", "key"),
    )
