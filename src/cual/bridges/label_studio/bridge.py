"""Between an adaptation and a Label Studio project: questions go there, annotations come back as answers.

Every step looks at both sides and does what is missing, so it does not matter how often it is taken, or where
it was interrupted: nothing is remembered here that is not there.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from cual.bridges.label_studio import labelling
from cual.bridges.label_studio.labelling import CANNOT_TELL, Question
from cual.bridges.label_studio.receiver import ACTIONS, SECRET
from cual.bridges.label_studio.sources import Source
from cual.bridges.label_studio.studio import Json, LabelStudio, field
from cual.data.labels import SKIP, Answer
from cual.errors import BadLabels, BudgetExceeded, CualError, Unavailable, UnknownQuery, UnknownSample
from cual.types import Label

log = logging.getLogger(__name__)
CHUNK = 50
"""Tasks that are sent at once."""
ARRIVAL = 60.0
"""Seconds that tasks may take to be there."""
THINKING, AGAIN = 1.0, 10.0
"""Seconds between two looks while a service computes, and while somebody does not answer."""
_OWNER = "X-Cual-Adaptation"
_DEFAULT_CONFIG = ("", "<View></View>", "<View/>")
_HOW_TO = "Choose the class of the sample, or type the name of a new one. Skip what nobody can tell."
_CANNOT_BE_TOLD = (BadLabels, BudgetExceeded, UnknownQuery, UnknownSample)
"""Unknown is what a folder that was put back to an earlier state has not asked yet."""
Where = tuple[str, Label]
"""A query and a sample."""


class Bridge:
    """Asks the questions of an adaptation in a Label Studio project.

    Parameters
    ----------
    source
        Whose questions they are.
    studio
        Where they are asked.
    project
        A project to ask in, which may hold other tasks; made, or found again, if not given.
    title
        Of a project that is made.
    report
        Called with a sentence whenever something happens.

    Examples
    --------
    ::

        with LabelStudio("http://127.0.0.1:8080", token) as studio:
            bridge = Bridge(FolderSource(task, Path("v1.task")), studio)
            bridge.run()
        agent = task.finish()
    """

    def __init__(
        self,
        source: Source,
        studio: LabelStudio,
        project: int | None = None,
        title: str = "cual",
        report: Callable[[str], None] = log.info,
    ) -> None:
        self._source, self._studio, self._report = source, studio, report
        self._choices: set[str] = set()
        self._refused: dict[Where, str] = {}
        self._to_name = labelling.SAMPLE
        if project is None:
            project = self._existing_project() or self._new_project(title)
        self.project: Final = project
        """The id of the project."""
        self._add_classes()

    @property
    def url(self) -> str:
        """Where people answer."""
        return f"{self._studio.url}/projects/{self.project}/data"

    def run(self, every: float = 5, wake: threading.Event | None = None) -> None:
        """Go on until the adaptation asks no more.

        Parameters
        ----------
        every
            Seconds between two looks at Label Studio.
        wake
            Look at once when this is set.
        """
        wake, trouble = wake or threading.Event(), ""
        while True:
            try:
                open, trouble = self.step(), ""
                if open is None:
                    return
                pause = every if open else min(every, THINKING)
            except Unavailable as error:  # one of the two is being restarted
                if str(error) != trouble:
                    self._report(f"{error}; trying again")
                trouble, pause = str(error), min(every, AGAIN)
            wake.wait(pause)
            wake.clear()

    def step(self) -> int | None:
        """Tell what was annotated, then ask what is open.

        Gives the number of open questions, 0 while a service computes; None if there will be no more.
        """
        there = self.pull()
        asked = self._source.ask()
        new = [question for question in asked if (question.query, question.sample) not in there]
        self._add_classes([q.suggestion for q in new if q.suggestion is not None])
        if new:
            self._push(new)
        return len(asked) if asked or not self._source.over else None

    def pull(self) -> set[Where]:
        """Tell what was annotated since; the questions that are in Label Studio."""
        annotations: dict[Where, list[Json]] = {}
        for where, of_task in self._tasks():
            annotations.setdefault(where, []).extend(of_task)
        classes = self._source.classes()
        answers_before = self._source.answers()
        changes: dict[str, dict[Label, Answer]] = {}
        for (query, sample), of_sample in annotations.items():
            before = answers_before.get(sample)
            try:
                now = labelling.answer(of_sample, classes)
            except BadLabels as error:
                self._refuse((query, sample), error)
                continue
            if now is None and before is not None:
                now = SKIP  # the annotation was deleted: what it said must not be learned
            if now is not None and now != before:
                changes.setdefault(query, {})[sample] = now
        for query, answers in changes.items():
            self._tell(query, answers)
        return set(annotations)

    def add_webhook(self, url: str, secret: str) -> int:
        """Have Label Studio call `url` when something is annotated; in place of what an earlier run left."""
        for webhook in self._studio.webhooks(self.project):
            if (webhook.get("headers") or {}).get(_OWNER) == self._source.key:
                self._studio.remove_webhook(field(webhook, "id", int))
        added = self._studio.add_webhook(
            project=self.project,
            url=url,
            send_payload=False,
            send_for_all_actions=False,
            actions=ACTIONS,
            headers={SECRET: secret, _OWNER: self._source.key},
        )
        return field(added, "id", int)

    def remove_webhook(self, webhook: int) -> None:
        with suppress(CualError):  # it is gone, or Label Studio is; the next run clears up
            self._studio.remove_webhook(webhook)

    # -- the project -------------------------------------------------------------------------------------------

    @property
    def _mark(self) -> str:
        return f"Questions of cual ({self._source.key})"

    def _existing_project(self) -> int | None:
        projects = self._studio.projects()
        marked = (p for p in projects if self._mark in str(p.get("description") or ""))
        return next((field(project, "id", int) for project in marked), None)

    def _new_project(self, title: str) -> int:
        project = self._studio.add_project(
            title=title[:50],
            description=self._mark,
            label_config=labelling.config(self._source.kind, self._source.classes()),
            expert_instruction=_HOW_TO,
            show_collab_predictions=True,
            model_version=labelling.MODEL_VERSION,
            enable_empty_annotation=False,
            skip_queue="IGNORE_SKIPPED",
        )
        number = field(project, "id", int)
        self._report(f"made the project {project.get('title')!r} ({number})")
        return number

    def _add_classes(self, suggested: Sequence[Label] = ()) -> None:
        """See to it that every class can be chosen."""
        classes, kind = list(dict.fromkeys([*self._source.classes(), *suggested])), self._source.kind
        if self._choices.issuperset([*map(str, classes), CANNOT_TELL]):
            return
        config = str(self._studio.project(self.project).get("label_config") or "").strip()
        bare = config in _DEFAULT_CONFIG
        text = labelling.config(kind, classes) if bare else config
        more = labelling.missing(text, kind, classes)
        if bare or more:
            text = labelling.extended(text, more)
            self._studio.change_project(self.project, label_config=text)
            self._report(f"new in the label set: {', '.join(more)}" if more else "the project has a label set")
        self._to_name = labelling.about(text)
        self._choices |= {*map(str, classes), CANNOT_TELL}

    # -- tasks and answers -------------------------------------------------------------------------------------

    def _tasks(self) -> Iterator[tuple[Where, list[Json]]]:
        """The questions that are there, and their annotations; one may be there twice."""
        for task in self._studio.tasks(self.project, labelling.KEY, self._source.key):
            meta: Any = task.get("meta")
            sample: Any = dict[str, Any](meta).get("sample") if isinstance(meta, dict) else None
            if isinstance(sample, str | int) and not isinstance(sample, bool) and "query" in meta:
                annotations: Any = task.get("annotations")
                # What is no list is no annotation either: it is refused, and not taken for deleted.
                yield (
                    (str(meta["query"]), sample),
                    annotations if isinstance(annotations, list) else [annotations],
                )

    def _push(self, questions: Sequence[Question]) -> None:
        for start in range(0, len(questions), CHUNK):
            part = questions[start : start + CHUNK]
            tasks = [self._task(question) for question in part]
            self._studio.import_tasks(self.project, tasks)
            self._await({(question.query, question.sample) for question in part})
        self._report(f"round {questions[0].round + 1}: {_counted(len(questions), 'question')} at {self.url}")

    def _task(self, question: Question) -> dict[str, Any]:
        kind, key = self._source.kind, self._source.key
        return labelling.task(question, kind, self._source.show(question), key, self._to_name)

    def _await(self, wanted: set[Where]) -> None:
        """Wait until tasks are there, so that the next look does not take them for missing."""
        until, pause = time.monotonic() + ARRIVAL, 0.1
        while True:
            there = {where for where, _ in self._tasks()}
            if wanted <= there:
                return
            if time.monotonic() > until:
                raise Unavailable(f"{len(wanted - there)} tasks have not arrived in project {self.project}")
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _tell(self, query: str, answers: dict[Label, Answer]) -> None:
        """Tell all at once, or one by one where not all can be told."""
        try:
            self._source.tell(query, answers)
            accepted = list(answers)
        except _CANNOT_BE_TOLD:
            accepted = [sample for sample, answer in answers.items() if self._tell_one(query, sample, answer)]
        for sample in accepted:
            self._refused.pop((query, sample), None)
        if accepted:
            self._report(f"{_counted(len(accepted), 'answer')} from Label Studio")

    def _tell_one(self, query: str, sample: Label, answer: Answer) -> bool:
        try:
            self._source.tell(query, {sample: answer})
        except _CANNOT_BE_TOLD as error:
            self._refuse((query, sample), error)
            return False
        return True

    def _refuse(self, where: Where, error: CualError) -> None:
        """Say once what cannot be told; it is tried again, for an annotator may change it."""
        if self._refused.get(where) != str(error):
            self._refused[where] = str(error)
            self._report(f"the annotation of {where[1]} cannot be used: {error}")


def _counted(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"
