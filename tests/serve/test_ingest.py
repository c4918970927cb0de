"""Samples that programs send over HTTP: judged as `/predict` judges, kept once, and made a pool of."""

import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from cual.serve.rules.records import Role
from cual.serve.web.app import limit_of
from cual.serve.web.settings import Limits
from serving import Service
from visiting import Site, site


def body(X: np.ndarray) -> dict[str, Any]:
    return {"features": X.tolist()}


@pytest.fixture
def here(service: Service) -> Any:
    with site(service) as held:
        yield held


def url(here: Site, what: str = "send") -> str:
    return f"/api/agents/{here.service.agent}/{what}"


def sent(
    here: Site, X: np.ndarray, key: str | None = None, client: TestClient | None = None, **how: Any
) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    return (client or here.bearer()).post(url(here), json=body(X), headers=headers, **how)


# -- answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{}, {"false_alarms": 0.2}])
def test_it_answers_what_predict_answers_and_what_became_of_each(here: Site, asked: dict[str, Any]) -> None:
    X = here.service.world.pool[:20]
    predicted = here.bearer().post(url(here, "predict"), json=body(X), params=asked).json()
    answer = sent(here, X, params=asked).json()
    fates = answer.pop("kept")
    assert answer == predicted
    assert all(
        fate == "kept" for fate, verdict in zip(fates, answer["verdicts"], strict=True) if verdict != "known"
    )
    record = here.bearer().get(url(here, "inbox")).json()
    assert record["waiting"] == fates.count("kept") == sum(record["by_verdict"].values())
    assert sum(count["arrived"] for count in record["counts"]) == 20
    mine = {
        verdict: sum(c["arrived"] for c in record["counts"] if c["verdict"] == verdict)
        for verdict in record["by_verdict"]
    }
    assert mine == {verdict: answer["verdicts"].count(verdict) for verdict in mine}


def test_the_false_alarms_that_were_set_hold_here_too(here: Site) -> None:
    here.service.workspace.set_false_alarms(here.service.agent, 0.5, here.service.ann)
    assert sent(here, here.service.world.pool[:3]).json()["false_alarms"] == 0.5


def test_names_are_kept_and_must_fit(here: Site) -> None:
    X = here.service.world.pool[:2]
    here.service.workspace.set_inbox_policy(here.service.agent, _all(), here.service.ann)
    assert sent(here, X, params={"name": ["../../x.jpg", "b"]}).status_code == 200
    assert sent(here, X, params={"name": ["one"]}).status_code == 422
    pool = here.bearer().post(url(here, "inbox/close"), json={"name": "sent"}).json()
    here.service.work()
    folder = here.service.workspace.home.pool_folder(pool["id"])
    assert b"x.jpg" in (folder / "features.safetensors").read_bytes()
    assert b"../" not in (folder / "features.safetensors").read_bytes()


def _all() -> Any:
    from cual.serve.rules.inbox.records import Policy

    return Policy(known_share=1.0)


# -- sent again ------------------------------------------------------------------------------------------------


def test_with_the_same_key_it_is_answered_the_same_and_kept_once(here: Site) -> None:
    X = here.service.world.pool[:10]
    first = sent(here, X, "key-1")
    here.service.workspace.set_false_alarms(here.service.agent, 0.5, here.service.ann)
    again = sent(here, X, "key-1")
    assert again.content == first.content
    assert sum(c["arrived"] for c in here.bearer().get(url(here, "inbox")).json()["counts"]) == 10


def test_a_key_is_refused_for_anything_else(here: Site) -> None:
    X = here.service.world.pool[:10]
    assert sent(here, X, "key-1").status_code == 200
    other = sent(here, X[:5], "key-1")
    assert (other.status_code, other.json()["error"]) == (409, "Conflict")
    assert sent(here, X, "key-1", params={"false_alarms": 0.3}).status_code == 409
    for wrong in ("a b", "x" * 201):
        assert sent(here, X, wrong).status_code == 422


def test_nobody_gets_what_was_answered_to_somebody_elses_key(here: Site) -> None:
    from cual.serve.rules.records import OPERATOR

    X = here.service.world.pool[:3]
    first = sent(here, X, "key-1").json()
    other = here.accounts.add_person("cid", Role.admin, by=OPERATOR)
    token = here.accounts.new_token(other.id, "api", by=OPERATOR)[1]
    theirs = sent(here, X, "key-1", here.visitor(Authorization=f"Bearer {token}")).json()
    assert first["kept"] != theirs["kept"], "it is their own request, about samples that are there already"
    assert "kept" not in theirs["kept"]


# -- who may, and how much -------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.reader, Role.annotator])
def test_only_administrators_send_change_and_close(here: Site, role: Role) -> None:
    client = here.bearer(role)
    assert sent(here, here.service.world.pool[:1], client=client).status_code == 403
    assert client.patch(url(here, "inbox"), json={"originals": False}).status_code == 403
    assert client.post(url(here, "inbox/close"), json={"name": "x"}).status_code == 403
    assert client.get(url(here, "inbox")).status_code == 200
    assert here.visitor().post(url(here), json=body(here.service.world.pool[:1])).status_code == 401
    assert here.service.workspace.inbox(here.service.agent).arrived == 0


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "application/json", 422),
        (b'{"features": [[NaN]]}', "application/json", 422),
        (json.dumps({"features": [[1.0] * 3]}).encode(), "application/json", 422),
        (b"x", "image/gif", 415),
        (b"x", "image/png", 422),
        (b'{"texts": ["a"]}', "application/json", 422),
    ],
)
def test_what_cannot_be_judged_is_not_kept(here: Site, content: bytes, kind: str, status: int) -> None:
    answer = here.bearer().post(url(here), content=content, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text
    assert here.service.workspace.inbox(here.service.agent).arrived == 0
    assert here.bearer().post("/api/agents/99/send", json={"features": [[1.0]]}).status_code == 404


def test_bodies_have_the_limit_of_predictions(here: Site) -> None:
    assert limit_of("/api/agents/1/send", Limits()) == Limits().predict
    assert limit_of("/api/agents/1/inbox", Limits()) == Limits().json
    with site(here.service, limits=Limits(predict=100)) as small:
        assert sent(small, here.service.world.pool).status_code == 413


# -- policy and pools ------------------------------------------------------------------------------------------


def test_administrators_say_what_is_kept(here: Site) -> None:
    client = here.bearer()
    told = client.patch(url(here, "inbox"), json={"known_share": 0.5, "near": None}).json()["policy"]
    assert (told["known_share"], told["near"], told["originals"], told["most_days"]) == (0.5, None, True, 90)
    told = client.patch(url(here, "inbox"), json={"originals": False}).json()["policy"]
    assert (told["known_share"], told["originals"]) == (0.5, False), "what is not said stays"
    for wrong in ({"known_share": 2}, {"near": 0.1}, {"most_samples": 0}, {"nonsense": 1}, {"most_days": 1.5}):
        assert client.patch(url(here, "inbox"), json=wrong).status_code == 422
    assert client.patch("/api/agents/99/inbox", json={}).status_code == 404


def test_a_pool_is_made_of_what_waits_and_a_new_inbox_begins(here: Site) -> None:
    client, world = here.bearer(), here.service.world
    assert client.post(url(here, "inbox/close"), json={"name": "sent"}).status_code == 409
    sent(here, world.pool)
    waiting = client.get(url(here, "inbox")).json()["waiting"]
    made = client.post(url(here, "inbox/close"), json={"name": "sent"})
    assert (made.status_code, made.json()["size"]) == (201, waiting)
    assert client.get(url(here, "inbox")).json()["waiting"] == 0
    here.service.work()
    pool = client.get(f"/api/pools/{made.json()['id']}").json()
    assert (pool["state"], pool["columns"]) == ("ready", ["arrived", "times", "verdict"])
    started = client.post(
        "/api/adaptations", json={"agent": here.service.agent, "pool": pool["id"], "budget": 5}
    )
    assert started.status_code == 201, started.text
    assert sent(here, world.pool).json()["kept"].count("kept") == waiting, "it is another inbox"
