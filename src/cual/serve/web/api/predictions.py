"""Predictions of agents. What they are, `predicting` computes; how much is let in, `places` says."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response

from cual.serve.rules.records import Person
from cual.serve.web.api import answers, features
from cual.serve.web.api.answers import Rows
from cual.serve.web.api.common import LARGEST_ID, Id, Reader, problems
from cual.serve.web.predictions.places import Places
from cual.serve.web.predictions.predicting import Charge, Novelties, Predictions, Predictor
from cual.serve.web.settings import Limits
from cual.types import AnyArray, Label

T = TypeVar("T")
router = APIRouter(prefix="/api/agents", tags=["agents"])
Version = Annotated[int | None, Query(ge=0, le=LARGEST_ID, description="The current one if not given.")]
_FEATURES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["features"],
                    "additionalProperties": False,
                    "properties": {
                        "features": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "array", "items": {"type": "number"}},
                        }
                    },
                }
            },
            "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@dataclass(frozen=True)
class PredictionsOut:
    version: int
    """Which version of the agent said so."""
    labels: list[Label]
    probabilities: list[float]
    """Of the label of each sample."""


@dataclass(frozen=True)
class ProbabilitiesOut:
    version: int
    classes: list[Label]
    probabilities: list[list[float]]
    """One row per sample, columns in the order of `classes`."""


@dataclass(frozen=True)
class NoveltyOut:
    version: int
    threshold: float
    scores: list[float]
    """Above the threshold a sample is probably of a class that the agent does not know."""
    novel: list[bool]


@dataclass(frozen=True)
class Asking:
    """Somebody asks for predictions of an agent: what all three routes are told."""

    request: Request
    person: Person
    agent: int
    version: int | None
    predictor: Predictor
    places: Places
    limits: Limits

    async def answer(
        self,
        compute: Callable[[int, int | None, AnyArray, int, Charge], Awaitable[T]],
        fields: Callable[[T], Mapping[str, Any]],
    ) -> Response:
        """Read the features, compute, and answer. The place is held until the last byte is sent."""
        place = self.places.take(self.person.id, features.memory(self.request, self.limits))
        try:
            check = partial(self.predictor.check, self.agent, self.version)
            X = features.read(self.request, self.limits, check)
            predicted = await compute(self.agent, self.version, await X, self.person.id, place.grow)
            return answers.response(fields(predicted), place.leave)
        except BaseException:
            place.leave()
            raise


async def _asking(request: Request, person: Reader, id: Id, version: Version = None) -> Asking:
    state = request.app.state  # not as dependencies: each takes FastAPI longer than a prediction takes us
    return Asking(request, person, id, version, state.predictor, state.places, state.settings.limits)


InAsking = Annotated[Asking, Depends(_asking)]


@router.post(
    "/{id}/predict", response_model=PredictionsOut, responses=problems(404, 413, 415), openapi_extra=_FEATURES
)
async def predict(asking: InAsking) -> Response:
    """The class of each sample, and how probable it is."""
    return await asking.answer(asking.predictor.predict, _labels)


@router.post(
    "/{id}/probabilities",
    response_model=ProbabilitiesOut,
    responses=problems(404, 413, 415),
    openapi_extra=_FEATURES,
)
async def probabilities(asking: InAsking) -> Response:
    """How probable each class is for each sample."""
    return await asking.answer(asking.predictor.predict, _probabilities)


@router.post(
    "/{id}/novelty", response_model=NoveltyOut, responses=problems(404, 413, 415), openapi_extra=_FEATURES
)
async def novelty(asking: InAsking) -> Response:
    """How far each sample lies from everything that the agent knows."""
    return await asking.answer(asking.predictor.novelty, _novelty)


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
    }
