"""Several people: questions to more than one of them, loans of their own, disputes, and gold questions."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("adaptations", sa.Column("overlap", sa.Integer(), nullable=False, server_default="1"))
    op.add_column(
        "adaptations", sa.Column("own_disputes", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("adaptations", sa.Column("gold_share", sa.Double(), nullable=False, server_default="0"))
    op.add_column("questions", sa.Column("missing", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("questions", sa.Column("cost", sa.Integer(), nullable=False, server_default="0"))
    op.execute("UPDATE questions SET cost = 1 WHERE label IS NOT NULL")
    op.create_table(
        "loans",
        sa.Column("question", sa.Integer(), nullable=False),
        sa.Column("person", sa.Integer(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["question"], ["questions.id"]),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.PrimaryKeyConstraint("question", "person"),
    )
    op.execute(
        "INSERT INTO loans (question, person, until) "
        "SELECT id, lent_to, lent_until FROM questions WHERE lent_to IS NOT NULL AND lent_until IS NOT NULL"
    )
    op.create_table(
        "gold",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("pool", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("sample", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("person", sa.Integer()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["pool"], ["pools.id"]),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pool", "row"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "gold_questions",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("gold", sa.Integer(), nullable=False),
        sa.Column("adaptation", sa.Integer(), nullable=False),
        sa.Column("person", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text()),
        sa.Column("answered_at", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["gold"], ["gold.id"]),
        sa.ForeignKeyConstraint(["adaptation"], ["adaptations.id"]),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("gold", "adaptation", "person"),
        sqlite_autoincrement=True,
    )
