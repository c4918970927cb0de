"""Asks a person in the terminal, one sample at a time. What is asked is the adaptation's choice."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.markup import escape

from cual.cli.contents import printable
from cual.cli.output import counted, out
from cual.cli.showing import Showing
from cual.data.labels import SKIP, Answer, ClassNames, near_name, read_label
from cual.errors import CualError
from cual.loop import events
from cual.loop.adaptation import Adaptation, Query
from cual.types import Label

KEYS = """Type the name of its class, known or new. Enter takes the suggestion.
o opens the image, or shows all of the text.
? lists the classes, u says that you cannot tell (it costs no label), p passes it on: it comes again later.
z goes back to the answer before, q saves and quits; d is done: asks no more, learns from what was answered.
A class that is called like a key is typed with = before it: =u"""
COLOURS = {"novel": "magenta", "ambiguous": "yellow", "old": "blue"}


class LeftOpen(Exception):
    """The person goes on later."""


@dataclass(frozen=True)
class Question:
    """One sample to ask about; `before` is what was answered already, where a person goes back to it.

    >>> question = Question("q0", "a.jpg", 2.5, "novel", suggestion="owl")
    >>> question.default
    'owl'
    """

    query: str
    sample: Label
    score: float
    zone: str
    suggestion: Label | None
    before: Answer | None = None

    @property
    def default(self) -> Answer | None:
        """What Enter stands for."""
        return self.suggestion if self.before is None else self.before


class Questions:
    """The questions of one adaptation, in the terminal.

    Parameters
    ----------
    task
        Whose questions they are.
    keep
        Called after every answer, to save it.
    showing
        Shows what is asked about; without it there are only ids.
    """

    def __init__(self, task: Adaptation, keep: Callable[[], None], showing: Showing | None = None) -> None:
        self._task = task
        self._keep = keep
        self._showing = showing
        self._passed: set[Label] = set()
        """Samples that were passed on: they come when the others of the round are answered."""

    def run(self) -> None:
        """Ask until nothing is open. Raises `LeftOpen`, or EOFError where the input ends."""
        out.print(KEYS, style="dim", highlight=False)
        asked = ""
        while query := self._task.ask():
            self._keep()
            if query.id != asked:
                asked = query.id
                out.print(
                    f"\n[bold]Round {query.round + 1}[/bold]: {counted(len(query), 'question')}",
                    highlight=False,
                )
                out.print(str(self._task.outlook), style="dim", highlight=False)
            self._ask(self._next(query))
        self._keep()
        if self._answered(0) is not None:
            self._confirm()

    def _next(self, query: Query) -> Question:
        """The first question that was not passed on; when all were, they come again."""
        places = range(len(query))
        left = [place for place in places if query.ids[place] not in self._passed]
        if not left:
            self._passed.clear()
        i = left[0] if left else 0
        return Question(query.id, query.ids[i], query.scores[i], query.zones[i], query.suggestions[i])

    def _confirm(self) -> None:
        """The last chance to correct the last answers; input that ends here has said all it had to."""
        out.print(f"\n{self._task.outlook}", style="dim", highlight=False)
        for merge in self._task.merges():
            out.print(escape(str(merge)), style="yellow", highlight=False)
        while True:
            try:
                text = out.input("\nNo more questions. Enter learns, z goes back to the last answer, q quits: ")
            except EOFError:
                return
            if text.strip() == "q":
                raise LeftOpen
            last = self._answered(0)
            if text.strip() != "z" or last is None:
                return
            self._ask(last, back=1)

    def _ask(self, question: Question, back: int = 0) -> None:
        """Ask until there is an answer to this question, or to one before it."""
        self._show(question)
        while True:
            text = out.input(self._prompt(question)).strip()
            if text == "q":
                raise LeftOpen
            if text == "d":
                self._task.stop()
                return self._keep()
            if text == "o" and self._showing is not None:
                self._showing.open(question.sample)
            elif text == "?":
                out.print(escape(self._classes()), highlight=False)
            elif text == "s":
                out.print("u says that you cannot tell, p passes it on; a class called s is =s", style="yellow")
            elif text == "p" and not back:
                self._passed.add(question.sample)
                return None
            elif text == "z":
                before = self._answered(back)
                if before is not None:
                    return self._ask(before, back + 1)
                out.print("nothing was answered before", style="yellow")
            elif self._tell(question, text):
                return None

    def _tell(self, question: Question, text: str) -> bool:
        names = self._names()
        try:
            answer = _meaning(text, question.default, names)
            if answer is None:
                out.print("there is no suggestion here: type a class, or u if you cannot tell", style="yellow")
                return False
            if answer is not SKIP and answer not in names and not text.startswith("="):
                answer = self._meant(answer, names)
                if answer is None:
                    return False
            self._task.tell(question.query, {question.sample: answer})
        except CualError as error:
            out.print(escape(str(error)), style="red", highlight=False)
            return False
        self._keep()
        if answer is not SKIP and answer not in names.names:
            out.print(f"  new class {escape(str(answer))} (z to go back)", style="green", highlight=False)
        return True

    def _meant(self, new: Label, names: ClassNames) -> Label | None:
        """A new name, or the known one that was meant; None where the person wants to type again."""
        near = near_name(str(new), names)
        if near is None:
            return new
        shown = escape(str(near))
        prompt = f"  did you mean {shown}? Enter takes it, n makes the new class {escape(str(new))}: "
        text = out.input(prompt).strip().casefold()
        return near if text in ("", "y") else new if text == "n" else None

    def _show(self, question: Question) -> None:
        number = f"{self._task.labels_used} of {self._task.budget} labels used"
        zone = f"[{COLOURS[question.zone]}]{question.zone}[/]"
        before = "" if question.before is None else f"  answered {_shown(question.before)}"
        sample = f"[bold]{escape(printable(str(question.sample)))}[/bold]"
        score = f"score {question.score:.4g}, {zone}{before}"
        out.print(f"{sample}  {score}  [dim]{number}[/dim]", highlight=False)
        if self._showing is not None:
            self._showing.show(question.sample)

    def _prompt(self, question: Question) -> str:
        return "  class: " if question.default is None else rf"  class \[{_shown(question.default)}]: "

    def _classes(self) -> str:
        old, names = self._task.agent.names.names, self._names().names
        new = [name for name in names if name not in old]
        lines = [KEYS, "Known: " + ", ".join(map(str, old))]
        return "\n".join([*lines, "New: " + ", ".join(map(str, new))] if new else lines)

    def _names(self) -> ClassNames:
        names = self._task.agent.names
        for answer in self._task.answers.values():
            if answer is not SKIP:
                names = names.plus(answer)
        return names

    def _answered(self, back: int) -> Question | None:
        """The sample that was answered last, or `back` answers before that."""
        answered = [row["sample"] for row in self._task.journal if row["event"] in events.ANSWERS]
        order = list(dict.fromkeys(reversed(answered)))
        if back >= len(order):
            return None
        row = next(row for row in self._task.ledger if row["sample"] == order[back])
        answer = SKIP if row["skipped"] else row["answer"]
        return Question(row["query"], row["sample"], row["score"], row["zone"], row["suggestion"], answer)


def _meaning(text: str, default: Answer | None, names: ClassNames) -> Answer | None:
    if not text:
        return default
    return SKIP if text == "u" else read_label(text.removeprefix("="), names)


def _shown(answer: Answer) -> str:
    return "cannot tell" if answer is SKIP else escape(str(answer))
