"""The HTTP API: every step of the work, in this process and against a real service; and what operators see."""

import html
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.responses import HTMLResponse

from cual import Agent, Client
from cual.errors import AlreadyFinished, NotAllowed
from cual.serve.rules.records import Role
from running import running
from serving import Service
from visiting import Site, site, stream
from worlds import World


@pytest.fixture
def here(service: Service) -> Iterator[Site]:
    with site(service) as held:
        yield held


def test_the_whole_way_by_http(tmp_path: Path, world: World, database_url: str | None) -> None:
    """Upload an agent, make a pool, answer as an annotator, undo once, finish, predict, roll back."""
    world.agent(head_options={"hidden": 64, "epochs": 40}).save(tmp_path / "v0.agent")
    with running(tmp_path / "workspace", database=database_url) as service:
        admin = Client(service.url, service.token("Amy", "admin"))
        bob = Client(service.url, service.token("bob", "annotator"))
        agent = admin.add_agent("animals", tmp_path / "v0.agent")
        assert (agent.version, agent.classes) == (0, ("cat", "dog"))
        pool = admin.add_pool("garden", agent, X=world.pool, ids=world.ids)
        assert (pool.state, pool.size, pool.kind) == ("ready", len(world.ids), "features")
        started = admin.start(agent, pool, 12)
        with pytest.raises(NotAllowed):
            bob.start(agent, pool, 12)
        task, undone = bob.adaptation(started.id), False
        while query := task.ask(n=5):
            if not undone and len(query) > 1:  # so that the round is not over with it
                undone = True
                first = query.ids[0]
                task.tell(query.id, {first: "wrong"})
                assert task.state.new_classes == ("wrong",)
                assert task.undo() == first
                assert task.state.new_classes == ()
            task.tell(query.id, {i: world.truth[i] for i in query.ids})
        assert undone
        assert task.state.state == "review"
        with pytest.raises(NotAllowed):
            task.finish()
        after = started.finish()
        assert (after.version, set(after.classes)) == (1, {"cat", "dog", "owl", "Füchsin mit Schal"})
        learned = admin.predict(agent, world.pool)
        assert np.mean(learned == list(world.truth.values())) > 0.9
        ledger = task.ledger()
        assert {row["answer"] for row in ledger} <= set(world.truth.values())
        assert len(ledger) == task.state.spent <= 12
        assert [v["number"] for v in admin.versions(agent)] == [0, 1]
        with pytest.raises(AlreadyFinished):
            task.tell(ledger[0]["query"], {ledger[0]["sample"]: "cat"})
        assert admin.roll_back(agent, 0).classes == ("cat", "dog")
        assert set(admin.predict(agent, world.pool)) <= {"cat", "dog"}
        assert admin.predict(agent, world.pool, version=1).tolist() == learned.tolist()
        assert service.end() == 0
    # what came of it is what the library makes of the same answers, to the last bit
    same = world.answer_all(Agent.load(tmp_path / "v0.agent").adapt(world.pool, 12, ids=world.ids)).finish()
    same.save(tmp_path / "same.agent")
    assert learned.tolist() == same.predict(world.pool).tolist()
    made = tmp_path / "workspace" / "agents" / str(agent.id) / "1.agent"
    assert made.read_bytes() == (tmp_path / "same.agent").read_bytes()


# -- agents ----------------------------------------------------------------------------------------------------


def test_predictions_are_the_agents_own(here: Site) -> None:
    client, X = here.bearer(Role.reader), here.service.world.pool[:7]
    agent = here.service.workspace.load_agent(here.service.agent)
    said = client.post("/api/agents/1/predict", json={"features": X.tolist()}).json()
    assert said["labels"] == agent.predict(X).tolist()
    assert np.allclose(said["probabilities"], agent.predict_proba(X).max(axis=1), atol=1e-6)
    assert said["version"] == 0
    far = client.post("/api/agents/1/novelty", json={"features": X.tolist()}).json()
    assert np.allclose(far["scores"], agent.novelty(X), rtol=1e-5)
    assert far["novel"] == (agent.novelty(X) > agent.threshold.value).tolist()
    all_ = client.post("/api/agents/1/probabilities", json={"features": X.tolist()}).json()
    assert all_["classes"] == ["cat", "dog"]
    assert np.allclose(all_["probabilities"], agent.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_features_come_as_npy_too(here: Site, dtype: Any, tmp_path: Path) -> None:
    X = here.service.world.pool[:7].astype(dtype)
    np.save(tmp_path / "x.npy", X)
    body, kind = (tmp_path / "x.npy").read_bytes(), {"Content-Type": "application/x-npy"}
    said = here.bearer().post("/api/agents/1/predict", content=body, headers=kind)
    agent = here.service.workspace.load_agent(here.service.agent)
    assert said.json()["labels"] == agent.predict(X).tolist()


@pytest.mark.parametrize(
    "features",
    [
        [],
        [[]],
        [[1.0] * 15],
        [[1.0] * 16, [1.0] * 15],
        [[float("nan")] * 16],
        [[float("inf")] * 16],
        [[1e300] * 16],
        [["a"] * 16],
        [[None] * 16],
        [1.0] * 16,
        "x",
        None,
        {"a": 1},
    ],
)
def test_features_that_are_none(here: Site, features: Any) -> None:
    for what in ("predict", "probabilities", "novelty"):
        body, kind = json.dumps({"features": features}).encode(), {"Content-Type": "application/json"}
        answer = here.bearer().post(f"/api/agents/1/{what}", content=body, headers=kind)
        assert answer.status_code == 422, answer.text
        assert answer.json()["detail"]
    for body in (b"", b"[]", b"{}", b'{"features": [[1]], "more": [[1]]}', b"\xff", b"[" * 100_000):
        answer = here.bearer().post("/api/agents/1/predict", content=body)
        assert answer.status_code == 422


def test_features_that_overflow_are_refused_rather_than_answered_with_null(here: Site) -> None:
    body = {"features": [[3e38] * 16]}
    assert here.bearer().post("/api/agents/1/novelty", json=body).status_code == 422


def test_one_bad_request_does_not_spoil_a_batch(here: Site) -> None:
    """Requests that arrive together are computed together; each gets its own answer or error."""
    import asyncio

    predictor, X = here.app.state.predictor, here.service.world.pool
    wrong = [np.zeros((1, 3)), np.full((2, 16), np.nan)]

    async def together() -> list[Any]:
        parts = [X[i : i + 3] for i in range(0, 30, 3)]
        asked = [predictor.predict(1, None, part) for part in [*parts, *wrong]]
        asked += [predictor.novelty(1, None, X[:2]), predictor.predict(99, None, X[:1])]
        return await asyncio.gather(*asked, return_exceptions=True)

    *good, width, nan, novelty, missing = asyncio.run(together())
    expected = here.service.workspace.load_agent(1).predict_proba(X[:30])
    assert np.allclose(np.concatenate([p.probabilities for p in good]), expected, atol=1e-6)
    assert [type(e).__name__ for e in (width, nan, missing)] == ["BadFeatures", "BadFeatures", "NotFound"]
    assert len(novelty.scores) == 2
    counted = here.bearer().get("/metrics").text
    assert "cual_predicted_rows_total 32.0" in counted


def test_rolling_back_counts_at_once(here: Site) -> None:
    service, client = here.service, here.bearer()
    adaptation = service.start(12)
    service.answer_all(adaptation)
    assert service.finish(adaptation).result_version == 1
    X = {"features": service.world.pool[:5].tolist()}
    assert client.post("/api/agents/1/predict", json=X).json()["version"] == 1
    assert client.post("/api/agents/1/roll-back", json={"version": 0}).json()["version"] == 0
    assert client.post("/api/agents/1/predict", json=X).json()["version"] == 0
    assert client.post("/api/agents/1/predict?version=1", json=X).json()["version"] == 1
    assert client.post("/api/agents/1/predict?version=7", json=X).status_code == 404
    assert client.post("/api/agents/1/roll-back", json={"version": 7}).status_code == 404
    versions = client.get("/api/agents/1/versions").json()
    assert [v["current"] for v in versions] == [True, False]


# -- pools -----------------------------------------------------------------------------------------------------


def test_a_pool_of_uploaded_features(here: Site) -> None:
    client, world = here.bearer(), here.service.world
    held = io.BytesIO()
    np.savez(held, X=world.pool, ids=np.array(world.ids))
    form = [("files", ("pool.npz", held.getvalue()))]
    made = client.post("/api/pools", data={"name": "again", "agent": "1"}, files=form)
    assert made.status_code == 201, made.text
    here.service.work()
    pool = client.get(f"/api/pools/{made.json()['id']}").json()
    assert (pool["state"], pool["size"], pool["kind"]) == ("ready", len(world.ids), "features")
    assert client.get(f"/api/pools/{pool['id']}/pictures/0").status_code == 404
    assert client.get(f"/api/pools/{pool['id']}/texts/0").status_code == 404
    assert client.get(f"/api/pools/{pool['id']}/skipped").json() == []


def test_a_pool_of_the_wrong_width_fails_and_says_why(here: Site, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.zeros((5, 3)))
    files = [("files", ("x.npz", (tmp_path / "x.npz").read_bytes()))]
    made = here.bearer().post("/api/pools", data={"name": "x", "agent": "1"}, files=files).json()
    here.service.work()
    pool = here.bearer().get(f"/api/pools/{made['id']}").json()
    assert pool["state"] == "failed"
    assert "3 wide" in pool["error"]
    start = {"agent": 1, "pool": made["id"], "budget": 4}
    assert here.bearer().post("/api/adaptations", json=start).status_code == 409


# -- answering -------------------------------------------------------------------------------------------------


def test_answers_undo_corrections_and_disagreement(here: Site) -> None:
    adaptation = here.service.start(8)
    at = f"/api/adaptations/{adaptation}"
    ann, bob = here.browser(Role.admin), here.browser(Role.annotator)
    lent = bob.post(f"{at}/lend", json={"n": 2}).json()
    assert [q["lent_to"] for q in lent] == ["bob", "bob"]
    others = ann.post(f"{at}/lend", json={"n": 100}).json()
    assert not {q["id"] for q in lent} & {q["id"] for q in others}
    first, second = (str(q["id"]) for q in lent)
    assert bob.post(f"{at}/answers", json={"answers": {first: "cat"}}).json()["spent"] == 1
    assert bob.post(f"{at}/answers", json={"answers": {first: "cat"}}).json()["spent"] == 1
    assert bob.post(f"{at}/answers", json={"answers": {second: None}}).json()["spent"] == 1
    assert bob.post(f"{at}/undo").json()["id"] == int(second)
    assert ann.post(f"{at}/answers", json={"answers": {first: "owl"}}).status_code == 200
    (question,) = ann.get(f"{at}/questions", params={"disagreement": True}).json()
    assert [a["person"] for a in question["answers"]] == ["bob", "ann"]
    assert question["effective"] == "cat"
    settle = {"question": int(first), "label": "owl"}
    assert ann.post(f"{at}/settle", json=settle).status_code == 403, "ann is a party to it"
    assert ann.post(f"{at}/sharing", json={"own_disputes": True}).status_code == 200
    settled = ann.post(f"{at}/settle", json=settle).json()
    assert (settled["effective"], settled["disagreement"]) == ("owl", False)
    assert ann.post(f"{at}/settle", json={"question": 10**6, "label": "owl"}).status_code == 404
    assert bob.post(f"{at}/give-back", json={"questions": [int(second)]}).status_code == 204
    assert bob.post(f"{at}/answers", json={"answers": {"999999": "cat"}}).status_code == 404
    assert ann.post(f"{at}/finish").status_code == 409


def test_a_question_of_another_adaptation_is_not_settled_here(here: Site) -> None:
    one, other = here.service.start(8), here.service.start(8)
    question = here.bearer().get(f"/api/adaptations/{other}/questions").json()[0]["id"]
    said = {"question": question, "label": "owl"}
    assert here.bearer().post(f"/api/adaptations/{one}/settle", json=said).status_code == 404
    assert here.bearer().post(f"/api/adaptations/{other}/settle", json=said).status_code == 200


def test_what_can_be_seen_of_an_adaptation(here: Site) -> None:
    adaptation = here.service.start(12)
    at, client = f"/api/adaptations/{adaptation}", here.bearer(Role.reader)
    here.service.answer_all(adaptation)
    record = client.get(at).json()
    assert record["state"] == "review"
    assert "Another question is" in record["outlook"]
    shown = client.get(f"{at}/map").json()
    assert len(shown["x"]) == len(shown["label"]) == len(here.service.world.ids)
    scores = client.get(f"{at}/scores").json()
    assert sum(scores["counts"]) > 0
    assert client.get(f"{at}/scores", params={"round": 0}).json()["round"] == 0
    assert client.get(f"{at}/scores", params={"round": 999}).status_code == 404
    assert len(client.get(f"{at}/history").json()) == scores["rounds"]
    assert client.get(f"{at}/ledger").json()[0]["sample"] in here.service.world.truth
    believed = client.get(f"{at}/pseudo-labels").json()
    assert [b["margin"] for b in believed] == sorted(b["margin"] for b in believed)
    label = believed[0]["label"]
    some = client.get(f"{at}/pseudo-labels", params={"label": label, "n": 2}).json()
    assert some == [b for b in believed if b["label"] == label][:2]
    row = believed[0]["row"]
    verdict = here.bearer(Role.annotator).post(f"{at}/reviews", json={"reviews": {str(row): "reject"}})
    assert verdict.status_code == 204
    assert next(b for b in client.get(f"{at}/pseudo-labels").json() if b["row"] == row)["verdict"] == "reject"
    report = client.get(f"{at}/report")
    assert report.headers["content-type"].startswith("text/html")
    assert record["outlook"] in report.text
    assert client.get("/api/jobs").json()[0]["state"] == "done"


def test_names_that_are_probably_one_class_are_shown_until_they_are_one(here: Site) -> None:
    service = here.service
    service.world = service.world.with_second_name("owl", "Eule")
    adaptation, client = service.start(20), here.bearer(Role.annotator)
    at = f"/api/adaptations/{adaptation}"
    assert client.get(at).json()["merges"] == []
    service.answer_all(adaptation)
    task = service.world.answer_all(service.world.adapt(service.world.agent(), 20))
    (expected,) = task.merges()
    (shown,) = client.get(at).json()["merges"]
    assert shown == {**asdict(expected), "text": str(expected)}
    assert {shown["a"], shown["b"]} == {"owl", "Eule"}
    assert html.escape(shown["text"]) in client.get(f"{at}/report").text
    again = [q["id"] for q in client.get(f"{at}/questions").json() if q["effective"] == "Eule"]
    service.workspace.answer(adaptation, service.ann, dict.fromkeys(again, "owl"))
    assert client.get(at).json()["merges"] == []
    assert service.finish(adaptation).merges == []
    assert "Probably one class" not in client.get(f"{at}/report").text


def test_stopping_and_dropping(here: Site) -> None:
    client = here.bearer()
    first, second = here.service.start(8), here.service.start(8)
    assert client.post(f"/api/adaptations/{first}/stop").json()["state"] == "thinking"
    here.service.work()
    assert client.get(f"/api/adaptations/{first}").json()["state"] == "review"
    assert client.post(f"/api/adaptations/{first}/finish").json()["state"] == "thinking"
    assert client.post(f"/api/adaptations/{second}/drop").json()["state"] == "dropped"
    assert client.post(f"/api/adaptations/{second}/retry").status_code == 409
    here.service.work()
    assert client.get(f"/api/adaptations/{first}").json()["state"] == "finished"


@pytest.mark.parametrize("budget", [0, -1, 0.0, 1.5, "4", None, True, 10**12])
def test_budgets_that_are_none(here: Site, budget: Any) -> None:
    body = {"agent": 1, "pool": 1, "budget": budget}
    assert here.bearer().post("/api/adaptations", json=body).status_code == 422


def test_a_share_is_a_budget(here: Site) -> None:
    made = here.bearer().post("/api/adaptations", json={"agent": 1, "pool": 1, "budget": 0.1})
    assert made.json()["budget"] == 7


# -- people ----------------------------------------------------------------------------------------------------


def test_an_administrator_lets_people_in_and_out(here: Site) -> None:
    admin = here.browser()
    ada = admin.post("/api/people", json={"name": "Ada", "role": "annotator"}).json()
    made = admin.post(f"/api/people/{ada['id']}/tokens", json={"note": "by mail"}).json()
    assert made["address"] == f"{here.url}/sign-in?token={made['token']}"
    visitor = here.visitor(Origin=here.origin)
    assert visitor.post("/api/sign-in", json={"token": made["token"]}).status_code == 200
    assert visitor.get("/api/me").json()["name"] == "Ada"
    api = admin.post(f"/api/people/{ada['id']}/tokens", json={"kind": "api", "days": 7}).json()
    assert api["address"] is None
    robot = here.visitor(Authorization=f"Bearer {api['token']}")
    assert robot.get("/api/me").json() == {"id": ada["id"], "name": "Ada", "role": "annotator", "csrf": ""}
    listed = admin.get(f"/api/people/{ada['id']}/tokens").json()
    assert [t["kind"] for t in listed] == ["sign-in", "api"]
    assert api["token"] not in json.dumps(listed)
    assert admin.delete(f"/api/people/{ada['id']}/tokens/{api['record']['id']}").status_code == 200
    assert robot.get("/api/me").status_code == 401
    assert admin.delete(f"/api/people/{ada['id']}/sessions").status_code == 204
    assert visitor.get("/api/me").status_code == 401
    assert admin.patch(f"/api/people/{ada['id']}", json={"active": False}).json()["active"] is False
    assert admin.post("/api/people", json={"name": "Ada", "role": "reader"}).status_code == 409
    assert admin.patch("/api/people/999", json={}).status_code == 404


def test_signing_out(here: Site) -> None:
    browser = here.browser(Role.reader)
    assert browser.post("/api/sign-out").status_code == 204
    assert browser.get("/api/me").status_code == 401


# -- operations ------------------------------------------------------------------------------------------------


def test_health_says_what_fails(service: Service) -> None:
    from starlette.testclient import TestClient

    from cual.serve.web.app import create_app
    from cual.serve.web.settings import Settings

    alive = True
    app = create_app(service.workspace, Settings(pages=False), lambda: alive)
    client = TestClient(app, base_url="http://127.0.0.1:8765", client=("127.0.0.1", 50000))
    assert client.get("/health").json() == {
        "status": "ok",
        "database": "ok",
        "worker": "alive",
        "version": client.get("/health").json()["version"],
    }
    alive = False
    assert client.get("/health").status_code == 503
    assert client.get("/health").json()["worker"] == "dead"
    assert "cual_worker_alive 0.0" in client.get("/metrics").text


def test_metrics_count_what_happens(here: Site) -> None:
    adaptation, client = here.service.start(8), here.bearer()
    lent = client.post(f"/api/adaptations/{adaptation}/lend", json={"n": 2}).json()
    said = {str(q["id"]): "cat" for q in lent}
    client.post(f"/api/adaptations/{adaptation}/answers", json={"answers": said})
    client.get("/api/agents/77")
    text = client.get("/metrics").text
    open_ = here.service.workspace.adaptation(adaptation).open
    for line in (
        'cual_requests_total{method="GET",route="/api/agents/{id}",status="404"} 1.0',
        'cual_request_seconds_count{route="/api/adaptations/{id}/answers"} 1.0',
        'cual_jobs{state="failed"} 0.0',
        'cual_adaptations{state="asking"} 1.0',
        f"cual_questions_open {float(open_)}",
        f"cual_answers_total {float(len(lent))}",
        "cual_worker_alive 1.0",
    ):
        assert line in text, line


def test_a_backup_by_http_can_be_restored(here: Site, tmp_path: Path) -> None:
    from cual.serve.rules.workspace import Workspace

    adaptation = here.service.start(8)
    answer = here.bearer().post("/api/backup")
    assert answer.headers["content-disposition"].startswith("attachment")
    (tmp_path / "backup").write_bytes(answer.content)
    again = Workspace.restore(tmp_path / "backup", tmp_path / "elsewhere")
    assert again.adaptation(adaptation) == here.service.workspace.adaptation(adaptation)
    again.close()
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert list(here.service.workspace.uploads.iterdir()) == []


def test_a_backup_that_nobody_waits_for_leaves_nothing_behind(here: Site) -> None:
    credentials = {"Authorization": f"Bearer {here.token(Role.admin)}"}

    def hang_up(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("the connection is gone")

    with pytest.raises(Exception):  # noqa: B017, PT011  whatever the server makes of it
        stream(here.app, "/api/backup", iter(()), credentials, hang_up)
    assert list(here.service.workspace.uploads.iterdir()) == []


def test_with_pages_the_api_still_answers_in_json(service: Service) -> None:
    with site(service, pages=True) as held:
        for path, status in (("/api/nothing", 404), ("/api/agents/x", 422), ("/api/agents", 200)):
            answer = held.bearer().get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        assert held.bearer().put("/api/agents/1").status_code == 405
        assert held.bearer().put("/api/agents/1").headers["allow"] == "GET, PATCH, DELETE"
        page = held.visitor(Accept="text/html").get("/")
        assert (page.status_code, page.headers["location"]) == (303, "/sign-in")


def test_scripts_of_our_pages_carry_a_nonce_and_no_others_run(here: Site) -> None:
    page = b"<head><script>a</script><SCRIPT>b</SCRIPT><script src=x></script></head><scripture>"

    def answer() -> HTMLResponse:
        return HTMLResponse(page)

    here.app.add_api_route("/page", answer)
    got = here.browser().get("/page", headers={"Accept": "text/html", "Accept-Encoding": "gzip"})
    policy = got.headers["content-security-policy"]
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert len(nonce) >= 20
    assert got.text.count(f'<script nonce="{nonce}"') == 2
    assert "<SCRIPT>b" in got.text
    assert int(got.headers["content-length"]) == len(got.content)
    again = here.browser().get("/page", headers={"Accept": "text/html"})
    assert nonce not in again.text


def test_nothing_of_the_service_is_imported_with_the_library() -> None:
    import subprocess
    import sys

    code = (
        "import sys, cual, cual.cli; "
        "print([m for m in ('fastapi', 'nicegui', 'sqlalchemy', 'httpx', 'torch') if m in sys.modules]); "
        "import cual.client; print('torch' in sys.modules, 'fastapi' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\nFalse False\n"
