"""What predictions say beside the class: calibrated, known or not, at a rate that a team sets."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cual import Client
from cual.errors import BadOption, NotAllowed, NotFound
from cual.serve.rules.records import Role
from cual.serve.rules.workspace import Workspace
from cual.serve.web.predictions.outcomes import UNSURE_BELOW, Judgements
from serving import Service, make_service
from visiting import Site, site
from worlds import make_world


@pytest.fixture(params=["cual-plus", "cual"])
def here(request: pytest.FixtureRequest, workspace: Workspace) -> Iterator[Site]:
    with site(make_service(workspace, make_world(), method=request.param)) as held:
        yield held


def ask(here: Site, route: str = "predict", role: Role = Role.reader, **query: Any) -> dict[str, Any]:
    X = here.service.world.pool.tolist()
    answer = here.bearer(role).post(f"/api/agents/1/{route}", json={"features": X}, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_prediction_says_how_sure_and_how_known(here: Site) -> None:
    agent, X = here.service.workspace.load_agent(1), here.service.world.pool
    told = ask(here)
    assert told["labels"] == agent.predict(X).tolist()
    calibrated = agent.calibrated(X)
    assert calibrated is not None
    assert np.allclose(told["calibrated"], calibrated.max(axis=1), atol=1e-5)
    assert np.allclose(told["scores"], agent.novelty(X), rtol=1e-4, atol=1e-4)
    assert told["threshold"] == agent.threshold.value
    assert told["unsure_below"] == UNSURE_BELOW
    assert (told["false_alarms"], told["version"]) == (None, 0)
    expected = [
        "unlike anything known" if score > told["threshold"] else "unsure" if p < UNSURE_BELOW else "known"
        for score, p in zip(told["scores"], told["calibrated"], strict=True)
    ]
    assert told["verdicts"] == expected
    assert "unlike anything known" in expected
    assert len(set(expected)) > 1
    assert "failed" not in told  # of features all rows are good, or none


def test_without_verdicts_the_answer_is_the_old_one(here: Site) -> None:
    told = ask(here, verdicts=False)
    assert list(told) == ["version", "labels", "probabilities"]
    judged = ask(here)
    assert (judged["version"], judged["labels"]) == (told["version"], told["labels"])
    # How many rows are computed at once is found out on the way, and decides on the last bits.
    assert judged["probabilities"] == pytest.approx(told["probabilities"], abs=1e-6)


def test_a_request_can_ask_for_another_rate(here: Site) -> None:
    agent = here.service.workspace.load_agent(1)
    own = ask(here, "novelty")
    assert (own["threshold"], own["false_alarms"]) == (agent.threshold.value, None)
    for rate in (0.01, 0.2, 0.5):
        for route in ("predict", "novelty"):
            told = ask(here, route, false_alarms=rate)
            assert told["threshold"] == pytest.approx(agent.threshold_at(rate).value)
            assert told["false_alarms"] == rate
        assert told["novel"] == [score > told["threshold"] for score in told["scores"]]
    for rate in ("0", "0.9", "-1", "nan", "inf", "x"):
        answer = here.bearer().post(
            "/api/agents/1/novelty", json={"features": [[0] * 16]}, params={"false_alarms": rate}
        )
        assert answer.status_code == 422


def test_a_team_sets_the_rate_of_an_agent(here: Site) -> None:
    workspace, agent = here.service.workspace, here.service.workspace.load_agent(1)
    client = Client("http://127.0.0.1", "")
    client._http = here.bearer(Role.admin)  # type: ignore[assignment]
    assert client.agent(1).false_alarms is None
    assert client.set_false_alarms(1, 0.2).false_alarms == 0.2
    for route in ("predict", "novelty"):
        told = ask(here, route)
        assert (told["threshold"], told["false_alarms"]) == (pytest.approx(agent.threshold_at(0.2).value), 0.2)
        assert ask(here, route, false_alarms=0.01)["false_alarms"] == 0.01
    client.set_false_alarms(1, 0.2)  # said twice, written down once
    assert client.set_false_alarms(1, None).false_alarms is None
    assert ask(here)["threshold"] == agent.threshold.value
    rows = [row for row in workspace.audit(here.service.ann) if row.action == "set false alarms"]
    assert [row.details for row in rows] == [{"share": None, "before": 0.2}, {"share": 0.2, "before": None}]


def test_only_administrators_set_it_within_bounds(service: Service) -> None:
    workspace = service.workspace
    for person in (service.bob, service.eve):
        with pytest.raises(NotAllowed):
            workspace.set_false_alarms(1, 0.1, person)
    for share in (0.0, 0.9, -1.0, float("nan")):
        with pytest.raises(BadOption, match=r"between 0\.001 and 0\.5"):
            workspace.set_false_alarms(1, share, service.ann)
    with pytest.raises(NotFound):
        workspace.set_false_alarms(99, 0.1, service.ann)
    assert workspace.agent(1).false_alarms is None


def test_verdicts_go_by_the_score_first_then_by_the_calibrated_probability() -> None:
    best = np.array([[0, 0.9, 0.95, 1], [1, 0.9, 0.5, 1], [1, 0.9, 0.99, 3], [0, 0.9, 0.1, 3]], np.float32)
    judged = Judgements(0, ["a", "b"], best, True, 2.0, None)
    assert judged.labels(slice(0, 4)) == ["a", "b", "b", "a"]
    assert judged.verdicts(slice(0, 4)) == ["known", "unsure", *["unlike anything known"] * 2]
    assert judged.verdicts(slice(1, 2)) == ["unsure"]
    blank = Judgements(0, ["a", "b"], best, False, None, None)
    assert blank.verdicts(slice(0, 4)) == ["known"] * 4
