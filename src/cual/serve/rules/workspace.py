"""The Workspace: one folder and one database, and everything that the page, the API and the worker do with it.

Only the front: what happens is in the modules beside this one. All methods are thread-safe and take one
transaction each; what takes longer than a blink becomes a job for the worker.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from cual.agent import Agent
from cual.data.labels import Answer
from cual.data.pool import Pool
from cual.errors import Conflict
from cual.export import Labels
from cual.serve.rules import (
    adaptations,
    agents,
    audit,
    earlier,
    exports,
    founding,
    jobs,
    keeping,
    ledger,
    lending,
    pool_columns,
    pools,
    questions,
    repair_jobs,
    report,
    undoing,
    views,
)
from cual.serve.rules.inbox import closing
from cual.serve.rules.inbox.keeping import Inboxes
from cual.serve.rules.inventory import OfInventory
from cual.serve.rules.labelling import OfClasses
from cual.serve.rules.pools import Pictures
from cual.serve.rules.receiving import OfInboxes
from cual.serve.rules.records import (
    OPERATOR,
    AdaptationRecord,
    AgentRecord,
    AuditRecord,
    JobRecord,
    Person,
    PoolRecord,
    QuestionRecord,
    UndoRecord,
    VersionRecord,
)
from cual.serve.rules.repairs import OfRepairs
from cual.serve.rules.reviewing import OfReviews
from cual.serve.rules.rollout import OfRollout
from cual.serve.rules.running import OfAdaptations
from cual.serve.rules.showing import OfSamples
from cual.serve.rules.sources import TableColumns
from cual.serve.rules.teamwork import OfTeams
from cual.serve.rules.watching.front import OfWatching
from cual.serve.storage import restoring
from cual.serve.storage.database import Database
from cual.serve.storage.home import Home, empty_uploads, open_home
from cual.types import Row


class Workspace(
    OfClasses,
    OfReviews,
    OfAdaptations,
    OfInventory,
    OfRollout,
    OfRepairs,
    OfInboxes,
    OfWatching,
    OfSamples,
    OfTeams,
):
    """Agents, pools, adaptations, questions and answers. Made by `open`."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._agents, self._views = agents.Loaded(home), views.Views(home)
        self._inboxes = Inboxes(home)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        database: str | None = None,
        roots: Sequence[str | Path] = (),
        lend_seconds: float = 300,
    ) -> "Workspace":
        """Open a workspace, or make one; a database of an older cual is brought up to date.

        Parameters
        ----------
        folder
            The workspace's folder.
        database
            URL of the database; an SQLite file in the folder by default.
        roots
            Folders from which agents and pools may be made.
        lend_seconds
            How long a question stays with one person.
        """
        home = open_home(Path(folder), database, roots, lend_seconds)
        earlier.adopt(home)
        return cls(home)

    @property
    def folder(self) -> Path:
        return self.home.folder

    @property
    def database(self) -> Database:
        return self.home.database

    @property
    def uploads(self) -> Path:
        """Where to receive files; `add_pool` and `make_agent` take them from here."""
        return self.home.uploads

    def empty_uploads(self) -> None:
        """Remove what was half received; for the web process, when it starts."""
        empty_uploads(self.home)
        closing.remove_orphans(self.home)

    def close(self) -> None:
        self.home.database.close()

    # -- agents ------------------------------------------------------------------------------------------------

    def agents(self) -> list[AgentRecord]:
        return agents.every(self.home)

    def agent(self, agent: int) -> AgentRecord:
        return agents.one(self.home, agent)

    def add_agent(self, name: str, agent: Agent, person: Person) -> AgentRecord:
        """Keep an agent; what it is now becomes version 0."""
        return agents.add(self.home, name, agent, person)

    def versions(self, agent: int) -> list[VersionRecord]:
        """The oldest first."""
        return agents.versions(self.home, agent)

    def load_agent(self, agent: int, version: int | None = None) -> Agent:
        """The agent itself, of its current version by default. The last few are kept in memory."""
        return self._agents.get(agent, version)

    # -- pools -------------------------------------------------------------------------------------------------

    def pools(self) -> list[PoolRecord]:
        """The latest first."""
        return pools.every(self.home)

    def pool(self, pool: int) -> PoolRecord:
        return pools.one(self.home, pool)

    def add_pool(
        self,
        name: str,
        source: Path | Pool,
        agent: int,
        person: Person,
        pictures: Pictures | None = None,
        texts: Sequence[str] | None = None,
        columns: TableColumns | None = None,
        shown: pool_columns.Given | Sequence[str] | None = None,
    ) -> PoolRecord:
        """Add a pool, which a worker makes ready.

        Parameters
        ----------
        source
            A `Pool`; or a file or folder of images, text or features, under one of the workspace's roots or in
            `uploads` (from where it is moved).
        agent
            Whose encoder makes, or made, the features.
        pictures, texts
            What to show of each row of a `Pool`: (n, height, width[, 3]) uint8, or PIL images or bytes; texts.
        columns
            Columns of a table of text, where they are not called as usual.
        shown
            Columns for people to read, which no learner sees. Of a `Pool` values by name, one per row; of files
            names, by default all plain columns but those of labels.
        """
        loaded = self.load_agent(agent)
        return pools.add(self.home, name, source, agent, loaded, person, pictures, texts, columns, shown)

    # -- questions ---------------------------------------------------------------------------------------------

    def lend(self, adaptation: int, person: Person, n: int) -> list[QuestionRecord]:
        """Up to `n` open questions: those lent to the person already, then free ones, most useful first."""
        return lending.lend(self.home, adaptation, person, n)

    def pass_on(self, adaptation: int, person: Person, question_ids: Sequence[int]) -> None:
        """Leave questions to somebody else; the person gets them again when nothing else is left."""
        lending.pass_on(self.home, adaptation, person, question_ids)

    def answer(
        self,
        adaptation: int,
        person: Person,
        answers: Mapping[int, Answer],
        grace: float = 0,
        meant: bool = False,
    ) -> AdaptationRecord:
        """Answer questions by their ids: a label, or `SKIP` for "cannot tell". All count, or none.

        Parameters
        ----------
        grace
            Seconds in which the last answer of a round can still be undone before the learner goes on.
        meant
            Whether new names are meant that differ from known ones only by case or the like.
        """
        return questions.answer(self.home, adaptation, person, answers, grace, meant)

    def undo(self, adaptation: int, person: Person, reopen: bool = False) -> QuestionRecord:
        """Take back the person's last answer.

        Parameters
        ----------
        reopen
            Also once the learner has used it: its round is opened again, at the price that `undo_cost` tells.
        """
        return undoing.undo(self.home, adaptation, person, reopen)

    def undo_cost(self, adaptation: int, person: Person) -> UndoRecord:
        """What `undo` would come to."""
        return undoing.cost(self.home, adaptation, person)

    def questions(
        self,
        adaptation: int,
        round: int | None = None,
        answered: bool | None = None,
        disagreement: bool | None = None,
    ) -> list[QuestionRecord]:
        """Questions in the order asked, all of them by default."""
        return questions.every(self.home, adaptation, round, answered, disagreement)

    def question(self, question: int) -> QuestionRecord:
        return questions.one(self.home, question)

    def settle(self, question: int, person: Person, label: Answer, meant: bool = False) -> QuestionRecord:
        """Settle a disagreement: this label counts, whoever answered first; `meant` as in `answer`."""
        return questions.settle(self.home, question, person, label, meant)

    # -- what the learner thinks -------------------------------------------------------------------------------

    def map(self, adaptation: int) -> Row:
        """The pool in two dimensions: lists ``x``, ``y``, ``row``, ``state``, ``label``, all equally long."""
        return views.map_of(self.home, adaptation, self._views.get(adaptation))

    def scores(self, adaptation: int, round: int | None = None) -> Row:
        """The histogram of a round's scores: ``edges``, ``counts``, ``t_inner``, ``round``, ``rounds``."""
        return views.scores(self._views.get(adaptation), round)

    def ledger(self, adaptation: int) -> list[Row]:
        """One row per question: when and why it was asked, who answered what, what it cost."""
        return ledger.ledger(self.home, adaptation)

    def history(self, adaptation: int) -> list[Row]:
        """One row per round, as `Adaptation.history`."""
        view = self._views.get(adaptation)
        return [] if view is None else list(view.history)

    def report(self, adaptation: int) -> str:
        """What happened, as one self-contained HTML page."""
        record = self.adaptation(adaptation)
        agent, pool = self.agent(record.agent), self.pool(record.pool)
        return report.report(record, agent, pool, self.history(adaptation), self.ledger(adaptation))

    def export(
        self,
        person: Person,
        adaptation: int | None = None,
        agent: int | None = None,
        everything: bool = False,
        format: str = "csv",
        columns: bool = False,
    ) -> Labels:
        """Label rows, to be written by one of `cual.export.formats`; that they are taken is written down.

        Parameters
        ----------
        adaptation, agent
            Only of this adaptation, or of all of this agent; else of all that were not dropped.
        everything
            Also what does not count: what was corrected, overruled or rejected.
        format
            Into which they will be written.
        columns
            Also what the pools' tables say of the samples.
        """
        return exports.export(self.home, self._views, person, adaptation, agent, everything, format, columns)

    # -- the service itself ------------------------------------------------------------------------------------

    def jobs(self) -> list[JobRecord]:
        """The latest first."""
        return jobs.every(self.home)

    def cancel_job(self, job: int, person: Person) -> JobRecord:
        """End a job that waits or runs: what it was for has failed then, and can be tried again."""
        return jobs.call_off(self.home, job, person)

    def retry_job(self, job: int, person: Person) -> JobRecord:
        """Try again what a job was for that failed; the new job."""
        failed = jobs.one(self.home, job)
        if failed.state != "failed":
            raise Conflict(f"job {job} has not failed: it is {failed.state}")
        if failed.agent is not None:
            return jobs.one(self.home, founding.retry(self.home, failed.agent, person))
        if failed.pool is not None:
            return jobs.one(self.home, pools.retry(self.home, failed.pool, person))
        if failed.repair is not None:
            return jobs.one(self.home, repair_jobs.retry(self.home, failed.repair, person))
        assert failed.adaptation is not None
        adaptations.retry(self.home, failed.adaptation, person)
        return next(job for job in self.jobs() if job.adaptation == failed.adaptation)

    def audit(
        self,
        person: Person,
        by: int | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        n: int = 100,
    ) -> list[AuditRecord]:
        """Who did what, the latest first: up to `n` rows, for administrators.

        Parameters
        ----------
        by
            Only what this person did; 0 is the operator.
        since, until
            Only what was done from the one on, and before the other.
        before
            Only rows with a lower id: for the next page.
        """
        return audit.read(self.home, person, by, action, since, until, before, n)

    def audit_actions(self) -> list[str]:
        """What `audit` can be asked for by its `action`."""
        return audit.actions(self.home)

    def backup(self, path: str | Path, person: Person) -> Path:
        """Write everything to one file, consistent while others go on working.

        `FileLost` where a file is missing or damaged: nobody shall think that it was kept.
        """
        return keeping.back_up(self.home, Path(path), person)

    @classmethod
    def restore(
        cls,
        path: str | Path,
        folder: str | Path,
        database: str | None = None,
        keep_tokens: bool = False,
    ) -> "Workspace":
        """Make a workspace of a backup, in an empty folder and an empty database of either kind.

        It is the operator who does that: there is nobody else yet.

        Parameters
        ----------
        keep_tokens
            Let tokens and sign-in addresses of the backup be good here, too; else they are dropped.
        """
        home = restoring.restore(Path(path), Path(folder), database, keep_tokens)
        with home.database.writing() as connection:
            audit.write(connection, OPERATOR, "restore", "workspace", None)
        earlier.adopt(home)
        return cls(home)
