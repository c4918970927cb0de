"""How far people agree, and how each gets on: for administrators, and for each person about themself.

Cohen's kappa is scikit-learn's, Krippendorff's alpha that of the library of his name. Nobody is ranked: people
are sorted by name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from statistics import median
from typing import Any

import sqlalchemy as sa

from cual.data.labels import SKIP
from cual.loop.opinions import Question
from cual.loop.state import State
from cual.serve.rules import adaptations, gold
from cual.serve.rules.records import Person, Role
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.types import Label

LEAST = 5
"""Samples that two people must have named a class for before a measure says anything."""
PAUSE = timedelta(minutes=10)
"""Who answers nothing for so long was away: that is no pace."""
Votes = Mapping[int, Label]
"""What people said of one sample, by person; those who could not tell are left out."""


@dataclass(frozen=True)
class PairAgreement:
    """How far two people agree about the samples that both named a class for."""

    people: tuple[str, str]
    common: int
    same: int
    kappa: float | None
    """Cohen's kappa: 1 where they always agree, 0 where as often as by chance; None with too few in common."""


@dataclass(frozen=True)
class ClassAgreement:
    """Of the samples that somebody called this class, and several people named a class for."""

    label: Label
    samples: int
    agreed: int
    """Of those, the ones that all of them called so."""


@dataclass(frozen=True)
class PersonProgress:
    """How one person gets on in an adaptation."""

    person: str
    answers: int
    today: int
    """Since midnight, UTC."""
    seconds: float | None
    """Between two answers, the median; pauses are left out."""
    common: int
    """Samples that somebody else named a class for as well."""
    agreed: int
    """Of those, the ones of which all the others said the same."""
    gold: gold.GoldScore | None
    """None where no gold question was answered."""


@dataclass(frozen=True)
class AgreementRecord:
    """How people get on with one adaptation, as far as whoever asks may know."""

    overlap: int
    annotators: int
    """How many people can answer questions."""
    disagreements: int
    """Questions on which people disagree and that nobody has settled."""
    least: int
    """So many samples in common a measure needs."""
    common: int
    """Samples that several people named a class for."""
    alpha: float | None
    """Krippendorff's, for names: 1 where all agree, 0 where as by chance; None with too few in common."""
    pairs: list[PairAgreement]
    classes: list[ClassAgreement]
    people: list[PersonProgress]


def agreement(home: Home, adaptation: int, person: Person, annotators: int) -> AgreementRecord:
    """How people agree, and how they get on: of others only administrators are told."""
    with home.database.reading() as connection:
        row = adaptations.get(connection, adaptation)
        state = home.states.of(connection, adaptation)
        named = connection.execute(sa.select(db.people.c.id, db.people.c.name))
        names = {who.id: who.name for who in named}
        golden = gold.scores(connection, adaptation)
    every = [votes_of(question) for question in state.questions.values()]
    common = [votes for votes in every if len(votes) > 1]
    people = sorted({who for votes in every for who in votes} | set(golden), key=lambda who: names[who].lower())
    whole = person.role.may(Role.admin)
    told = [who for who in people if whole or who == person.id]
    return AgreementRecord(
        overlap=row.overlap,
        annotators=annotators,
        disagreements=sum(question.disagreement for question in state.questions.values()),
        least=LEAST,
        common=len(common),
        alpha=alpha(common),
        pairs=pairs(common, people, names) if whole else [],
        classes=by_class(common),
        people=[_progress(state, common, who, names[who], golden.get(who)) for who in told],
    )


def votes_of(question: Question) -> Votes:
    """What people who were asked said of a sample; who settled it was not asked."""
    given = {said.person: said.answer for said in question.given if not said.settles}
    return {person: answer for person, answer in given.items() if answer is not SKIP}


def pairs(common: Sequence[Votes], people: Sequence[int], names: Mapping[int, str]) -> list[PairAgreement]:
    """Of all pairs that have something in common, by name.

    >>> pairs([{1: "owl", 2: "owl"}, {1: "owl", 2: "fox"}], [1, 2], {1: "Ada", 2: "Bob"})
    [PairAgreement(people=('Ada', 'Bob'), common=2, same=1, kappa=None)]
    """
    records: list[PairAgreement] = []
    for one, other in combinations(people, 2):
        both = [(votes[one], votes[other]) for votes in common if one in votes and other in votes]
        if both:
            same = sum(a == b for a, b in both)
            records.append(PairAgreement((names[one], names[other]), len(both), same, kappa(both)))
    return records


def kappa(both: Sequence[tuple[Label, Label]]) -> float | None:
    """Cohen's kappa of what two people said of the same samples.

    >>> kappa([("fox", "fox")] * 4 + [("owl", "owl")] * 4 + [("fox", "owl")] * 2)
    0.6154
    >>> kappa([("fox", "fox")] * 4) is None
    True
    """
    if len(both) < LEAST:
        return None
    from sklearn.metrics import cohen_kappa_score  # heavy, and rarely asked for

    first, second = zip(*both, strict=True)
    if len({*first, *second}) < 2:  # both always said the same one class: not defined, and nothing to measure
        return None
    return round(float(cohen_kappa_score([str(a) for a in first], [str(b) for b in second])), 4)


def alpha(common: Sequence[Votes]) -> float | None:
    """Krippendorff's alpha of what any number of people said.

    >>> alpha([{1: "fox", 2: "fox"}] * 4 + [{1: "owl", 2: "owl"}] * 4 + [{1: "fox", 2: "owl"}] * 2)
    0.62
    """
    labels = list(dict.fromkeys(label for votes in common for label in votes.values()))
    if len(common) < LEAST or len(labels) < 2:
        return None
    import krippendorff

    counts = [[list(votes.values()).count(label) for label in labels] for votes in common]
    measured: Any = krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
    return round(float(measured), 4)


def by_class(common: Iterable[Votes]) -> list[ClassAgreement]:
    """Of each class that somebody named, by name.

    >>> by_class([{1: "owl", 2: "owl"}, {1: "owl", 2: "fox"}])
    [ClassAgreement(label='fox', samples=1, agreed=0), ClassAgreement(label='owl', samples=2, agreed=1)]
    """
    named: dict[Label, list[bool]] = {}
    for votes in common:
        labels = set(votes.values())
        for label in labels:
            named.setdefault(label, []).append(len(labels) == 1)
    return [
        ClassAgreement(label, len(agreed), sum(agreed))
        for label, agreed in sorted(named.items(), key=lambda item: str(item[0]))
    ]


def _progress(
    state: State, common: Sequence[Votes], person: int, name: str, golden: gold.GoldScore | None
) -> PersonProgress:
    given = [said for question in state.questions.values() for said in question.given if said.person == person]
    times = sorted(datetime.fromisoformat(said.at) for said in given)
    midnight = db.now().replace(hour=0, minute=0, second=0, microsecond=0)
    between = [later - earlier for earlier, later in pairwise(times)]
    pace = [gap.total_seconds() for gap in between if gap < PAUSE]
    mine = [votes for votes in common if person in votes]
    return PersonProgress(
        person=name,
        answers=len(given),
        today=sum(at >= midnight for at in times),
        seconds=round(median(pace), 1) if pace else None,
        common=len(mine),
        agreed=sum(len(set(votes.values())) == 1 for votes in mine),
        gold=golden,
    )
