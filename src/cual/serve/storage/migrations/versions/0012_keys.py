"""Classes for which somebody wants no key; and who holds a question is in `loans`, no longer in `questions`."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "keyless_classes",
        sa.Column("person", sa.Integer(), nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("person", "agent", "label"),
    )
    _drop_loans_of_questions()


def _drop_loans_of_questions() -> None:
    """SQLite makes the table anew, since one of the columns refers to another table; its ids are given once."""
    connection = op.get_bind()
    sqlite = connection.dialect.name == "sqlite"
    last = None
    if sqlite:
        last = connection.execute(
            sa.text("SELECT seq FROM sqlite_sequence WHERE name = 'questions'")
        ).scalar_one_or_none()
    with op.batch_alter_table("questions", table_kwargs={"sqlite_autoincrement": True}) as questions:
        questions.drop_column("lent_to")
        questions.drop_column("lent_until")
    if last is not None:
        connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = 'questions'"))
        connection.execute(
            sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES ('questions', :last)"), {"last": last}
        )
