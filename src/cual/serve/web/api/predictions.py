"""Predictions of agents, of features, pictures and texts. What they are, `predictions.outcomes` computes.

How bodies are read is in `features` and `raw`, what is encoded in `predictions.encoding`, how much is let in in
`predictions.places`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from cual.encoders.base import is_built_in, spec_of
from cual.errors import BadOption
from cual.serve.rules.agents import LEAST_RATE, MOST_RATE
from cual.serve.rules.records import Person
from cual.serve.rules.workspace import Workspace
from cual.serve.web.api import answers, features, raw
from cual.serve.web.api.answers import Rows
from cual.serve.web.api.bodies import SAMPLES
from cual.serve.web.api.common import LARGEST_ID, Caller, Id, problems
from cual.serve.web.api.encoded import Features, encoded
from cual.serve.web.predictions.encoding import Encodings
from cual.serve.web.predictions.outcomes import UNSURE_BELOW, Judgements, Novelties, Predictions, Verdict
from cual.serve.web.predictions.places import Place, Places
from cual.serve.web.predictions.predicting import Charge, Predictor
from cual.serve.web.predictions.shadow import Originals, Shadow
from cual.serve.web.settings import Limits
from cual.types import AnyArray, Label

T = TypeVar("T", Predictions, Novelties, Judgements)
router = APIRouter(prefix="/api/agents", tags=["agents"])
Version = Annotated[int | None, Query(ge=0, le=LARGEST_ID, description="The current one if not given.")]
FalseAlarms = Annotated[
    float | None,
    Query(
        ge=LEAST_RATE,
        le=MOST_RATE,
        allow_inf_nan=False,
        description="Share of known samples that may be called unlike anything known; else the agent's.",
    ),
]
_OWN = problems(404, 413, 415)


@dataclass(frozen=True)
class FailedOut:
    """A picture or text that nothing could be said of: in its row, all else is null."""

    row: int
    error: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class PredictionsOut:
    version: int
    """Which version of the agent said so."""
    labels: list[Label | None]
    probabilities: list[float | None]
    """Of the label of each sample."""
    calibrated: list[float | None] | None = None
    """The same, as likely as labels of the validation set were; null where the agent has no such set."""
    scores: list[float | None] | None = None
    """Novelty: above the threshold, a sample is called unlike anything known."""
    threshold: float | None = None
    false_alarms: float | None = None
    """The share of known samples above the threshold, as it was set; null for the method's own threshold."""
    unsure_below: float | None = None
    """A known sample is called unsure where `calibrated` is less."""
    verdicts: list[Verdict | None] | None = None
    failed: list[FailedOut] | None = None
    """Of pictures and texts only."""


@dataclass(frozen=True, kw_only=True)
class ProbabilitiesOut:
    version: int
    classes: list[Label]
    probabilities: list[list[float] | None]
    """One row per sample, columns in the order of `classes`."""
    failed: list[FailedOut] | None = None


@dataclass(frozen=True, kw_only=True)
class NoveltyOut:
    version: int
    threshold: float
    scores: list[float | None]
    """Above the threshold a sample is probably of a class that the agent does not know."""
    novel: list[bool | None]
    false_alarms: float | None = None
    """The share of known samples above the threshold, as it was set; null for the method's own threshold."""
    failed: list[FailedOut] | None = None


@dataclass(frozen=True)
class Asking:
    """Somebody asks for predictions of an agent: what all three routes are told."""

    request: Request
    person: Person
    agent: int
    version: int | None
    workspace: Workspace
    predictor: Predictor
    encodings: Encodings
    places: Places
    limits: Limits
    shadow: Shadow

    async def answer(
        self,
        compute: Callable[[int, int | None, AnyArray, int, Charge], Awaitable[T]],
        fields: Callable[[T], Mapping[str, Any]],
    ) -> Response:
        """Read the samples, compute, and answer. The place is held until the last byte is sent."""
        place = self.places.take(self.person.id, features.memory(self.request, self.limits))
        try:
            samples = await self._features(place)
            X = samples.X if isinstance(samples, Features) else samples
            predicted = await compute(self.agent, self.version, X, self.person.id, place.grow)
            self.shadow.offer(self.agent, X, predicted, _originals(samples))
            told = fields(predicted)
            return answers.response(
                samples.spread(told) if isinstance(samples, Features) else told, place.leave
            )
        except BaseException:
            place.leave()
            raise

    async def _features(self, place: Place) -> "AnyArray | Features":
        """What was sent, if these are features; else what the agent's encoder makes of it."""
        samples = await self.read()
        return await self.encode(samples, place) if isinstance(samples, raw.Raw) else samples

    async def read(self) -> AnyArray | raw.Raw:
        """What was sent: features, or what is yet to be encoded."""
        if raw.is_raw(self.request):
            await run_in_threadpool(self._encoder)  # first: where there is none, nothing is read
            return await raw.read(self.request, self.limits)
        check = partial(self.predictor.check, self.agent, self.version)
        return await features.read(self.request, self.limits, check)

    async def encode(self, samples: raw.Raw, place: Place) -> Features:
        """What the agent's encoder makes of pictures or texts."""
        encoder = await run_in_threadpool(self._encoder)
        width = await run_in_threadpool(self.predictor.check_rows, self.agent, self.version, len(samples.items))
        place.grow(2 * 4 * width * len(samples.items))  # as they arrive, and as one table
        return await encoded(self.encodings, encoder, samples, self.person.id)

    def _encoder(self) -> str:
        """The fingerprint of the agent's encoder. It comes from a file, so it must be a built-in one."""
        self.predictor.check_rows(self.agent, self.version, rows=1)  # there is such a version, and it is ready
        record = self.workspace.agent(self.agent)
        if record.encoder is None:
            raise BadOption(
                f"the agent {record.name!r} was made of features and does not know which encoder made them; "
                "send features"
            )
        if not is_built_in(spec_of(record.encoder) or record.encoder):
            raise BadOption(
                f"the agent's encoder {record.encoder} is not one that the service runs; encode with "
                "`cual embed` and send the features"
            )
        return record.encoder


def _originals(samples: AnyArray | Features) -> Originals | None:
    """What the rows of features were made of."""
    if not isinstance(samples, Features) or samples.sent is None:
        return None
    return Originals(samples.sent.kind, [samples.sent.items[row] for row in samples.rows])


async def _asking(request: Request, person: Caller, id: Id, version: Version = None) -> Asking:
    state = request.app.state  # not as dependencies: each takes FastAPI longer than a prediction takes us
    return Asking(
        request,
        person,
        id,
        version,
        state.workspace,
        state.predictor,
        state.encodings,
        state.places,
        state.settings.limits,
        state.shadow,
    )


InAsking = Annotated[Asking, Depends(_asking)]


@router.post("/{id}/predict", response_model=PredictionsOut, responses=_OWN, openapi_extra=SAMPLES)
async def predict(asking: InAsking, false_alarms: FalseAlarms = None, verdicts: bool = True) -> Response:
    """The class of each sample, how probable it is, and whether the sample is like anything known.

    Without `verdicts`, only the class and its probability, which takes less time.
    """
    if not verdicts:
        return await asking.answer(asking.predictor.predict, _labels)
    return await asking.answer(partial(asking.predictor.judge, false_alarms=false_alarms), judgements)


@router.post("/{id}/probabilities", response_model=ProbabilitiesOut, responses=_OWN, openapi_extra=SAMPLES)
async def probabilities(asking: InAsking) -> Response:
    """How probable each class is for each sample."""
    return await asking.answer(asking.predictor.predict, _probabilities)


@router.post("/{id}/novelty", response_model=NoveltyOut, responses=_OWN, openapi_extra=SAMPLES)
async def novelty(asking: InAsking, false_alarms: FalseAlarms = None) -> Response:
    """How far each sample lies from everything that the agent knows."""
    return await asking.answer(partial(asking.predictor.novelty, false_alarms=false_alarms), _novelty)


def judgements(judged: Judgements) -> dict[str, Any]:
    """All that is answered of samples and their verdicts."""
    best = judged.best
    n = len(best)
    calibrated = Rows(n, 1, lambda rows: best[rows, 2].tolist()) if judged.calibrated else None
    return {
        "version": judged.version,
        "labels": Rows(n, 1, judged.labels),
        "probabilities": Rows(n, 1, lambda rows: best[rows, 1].tolist()),
        "calibrated": calibrated,
        "scores": Rows(n, 1, lambda rows: best[rows, 3].tolist()) if judged.threshold is not None else None,
        "threshold": judged.threshold,
        "false_alarms": judged.false_alarms,
        "unsure_below": UNSURE_BELOW,
        "verdicts": Rows(n, 1, judged.verdicts),
    }


def _labels(predicted: Predictions) -> dict[str, Any]:
    numbers, classes = predicted.probabilities, predicted.classes

    def labels(rows: slice) -> list[Label]:
        return [classes[best] for best in numbers[rows].argmax(axis=1).tolist()]

    def highest(rows: slice) -> list[float]:
        return numbers[rows].max(axis=1).tolist()

    n = len(numbers)
    return {"version": predicted.version, "labels": Rows(n, 1, labels), "probabilities": Rows(n, 1, highest)}


def _probabilities(predicted: Predictions) -> dict[str, Any]:
    numbers = predicted.probabilities
    n, width = numbers.shape
    rows = Rows(n, width, lambda rows: numbers[rows].tolist())
    return {"version": predicted.version, "classes": predicted.classes, "probabilities": rows}


def _novelty(predicted: Novelties) -> dict[str, Any]:
    scores, threshold = predicted.scores, predicted.threshold
    n = len(scores)
    return {
        "version": predicted.version,
        "threshold": threshold,
        "scores": Rows(n, 1, lambda rows: scores[rows].tolist()),
        "novel": Rows(n, 1, lambda rows: (scores[rows] > threshold).tolist()),
        "false_alarms": predicted.false_alarms,
    }
