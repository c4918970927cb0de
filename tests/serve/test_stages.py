"""Stages of versions: candidate, live, retired; promoted, rolled back and discarded, by whom and why."""

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from cual import Client
from cual.errors import BadOption, Conflict, CualError, NotAllowed, NotFound
from cual.serve.rules.records import OPERATOR, Person, Role
from cual.serve.rules.workspace import Workspace
from serving import Service
from visiting import Site, site


def version_made(service: Service, budget: int = 8) -> int:
    """The number of a version that a finished adaptation has made."""
    task = service.start(budget)
    service.answer_all(task)
    made = service.finish(task).result_version
    assert made is not None
    return made


def with_candidate(service: Service) -> int:
    service.workspace.set_rollout(service.agent, service.ann, "candidate")
    return version_made(service)


def stages(workspace: Workspace, agent: int) -> list[str]:
    return [version.stage for version in workspace.versions(agent)]


# -- what a version begins as ----------------------------------------------------------------------------------


def test_versions_are_live_at_once_unless_the_team_says_otherwise(service: Service) -> None:
    w = service.workspace
    assert w.agent(service.agent).new_versions == "live"
    assert version_made(service) == 1
    assert stages(w, service.agent) == ["retired", "live"]
    record = w.adaptation(1)
    assert (record.result_stage, record.next) == ("live", "Version 1 is made and predicts from now on.")


def test_a_candidate_does_not_predict_until_it_is_promoted(service: Service) -> None:
    w, X = service.workspace, service.world.pool
    assert with_candidate(service) == 1
    agent = w.agent(service.agent)
    assert (agent.version, agent.candidate, agent.classes) == (0, 1, ["cat", "dog"])
    assert stages(w, service.agent) == ["live", "candidate"]
    assert w.adaptation(1).next == "Version 1 is made and is a candidate: it waits to be promoted."
    with site(service) as here:
        reader = here.bearer(Role.reader)
        body = {"features": X[:4].tolist()}
        at = f"/api/agents/{service.agent}/predict"
        assert reader.post(at, json=body).json()["version"] == 0
        named = reader.post(at, json=body, params={"version": 1}).json()
        assert named["labels"] == w.load_agent(service.agent, 1).predict(X[:4]).tolist()
        w.promote(service.agent, 1, 0, "finds owls", service.ann)
        assert reader.post(at, json=body).json()["version"] == 1
        assert reader.post(at, json=body, params={"version": 0}).json()["version"] == 0
    assert stages(w, service.agent) == ["retired", "live"]
    assert w.agent(service.agent).candidate is None


def test_the_next_adaptation_builds_on_the_live_version_unless_another_is_named(service: Service) -> None:
    w = service.workspace
    with_candidate(service)
    task = service.start(8)
    assert w.adaptation(task).base_version == 0
    other = w.start(service.agent, service.pool, 8, service.ann, version=1)
    assert (other.base_version, len(other.suggested_classes)) == (1, len(w.versions(service.agent)[1].classes))
    with pytest.raises(NotFound):
        w.start(service.agent, service.pool, 8, service.ann, version=9)
    service.work()
    service.answer_all(task)
    made = service.finish(task).result_version
    assert made == 2
    assert w.versions(service.agent)[2].parent == 0
    assert w.agent(service.agent).candidate == 2, "the latest one is in the shadow"
    w.promote(service.agent, 1, 0, "the first one is better", service.ann)
    assert w.adaptation(service.start(8)).base_version == 1


def test_a_repair_is_live_at_once_in_any_case(service: Service) -> None:
    """Whoever repairs a class has decided it, and sees what comes of it."""
    w = service.workspace
    w.set_rollout(service.agent, service.ann, "candidate")
    assert w.rename_class(service.agent, "cat", "tomcat", service.ann).classes == ["tomcat", "dog"]
    assert stages(w, service.agent) == ["retired", "live"]


# -- promoted, rolled back, discarded --------------------------------------------------------------------------


def test_the_history_says_who_and_why(service: Service) -> None:
    w, agent = service.workspace, service.agent
    with_candidate(service)
    w.promote(agent, 1, 0, " finds owls\n", service.ann)
    assert w.roll_back(agent, 0, service.ann, "cats became dogs", live=1).version == 0
    assert w.roll_back(agent, 1, OPERATOR).version == 1, "rolling forward is the same thing"
    second = version_made(service)
    w.discard(agent, second, "nothing new", service.ann)
    told = w.stage_changes(agent)
    assert [(c.person, c.action, c.version, c.before, c.why) for c in told] == [
        ("ann", "discard", 2, 1, "nothing new"),
        ("the operator", "roll back", 1, 0, ""),
        ("ann", "roll back", 0, 1, "cats became dogs"),
        ("ann", "promote", 1, 0, "finds owls"),
    ]
    assert all(first.at >= then.at for first, then in pairwise(told))
    assert stages(w, agent) == ["retired", "live", "discarded"]
    with pytest.raises(NotFound):
        w.stage_changes(99)


def test_what_is_discarded_is_gone_and_its_number_is_not_given_again(service: Service, tmp_path: Path) -> None:
    w, agent = service.workspace, service.agent
    with_candidate(service)
    w.load_agent(agent, 1)  # somebody has it in memory
    w.discard(agent, 1, "worse", service.ann)
    assert not w.home.agent_file(agent, 1).exists()
    assert w.agent(agent).candidate is None
    assert w.adaptation(1).result_stage == "discarded"
    with site(service) as here:
        asked = here.bearer().post(
            f"/api/agents/{agent}/predict", json={"features": [[0.0] * 16]}, params={"version": 1}
        )
        assert asked.status_code == 404
    for attempt in (
        lambda: w.promote(agent, 1, 0, "after all", service.ann),
        lambda: w.roll_back(agent, 1, service.ann),
        lambda: w.discard(agent, 1, "again", service.ann),
        lambda: w.start(agent, service.pool, 8, service.ann, version=1),
    ):
        with pytest.raises(Conflict, match="discarded"):
            attempt()
    assert version_made(service) == 2
    restored = Workspace.restore(w.backup(tmp_path / "all.backup", OPERATOR), tmp_path / "restored")
    assert stages(restored, agent) == ["live", "discarded", "candidate"]
    assert restored.promote(agent, 2, 0, "better", OPERATOR).version == 2
    restored.close()


def test_what_cannot_be_is_refused_and_changes_nothing(service: Service) -> None:
    w, agent = service.workspace, service.agent
    with_candidate(service)
    before = (w.agent(agent), stages(w, agent), w.stage_changes(agent))
    refused: list[tuple[type[CualError], str, Callable[[], object]]] = [
        (BadOption, "say why", lambda: w.promote(agent, 1, 0, "  ", service.ann)),
        (BadOption, "longer than 1000", lambda: w.promote(agent, 1, 0, "x" * 1001, service.ann)),
        (BadOption, "say why", lambda: w.discard(agent, 1, "", service.ann)),
        (Conflict, "is live already", lambda: w.promote(agent, 0, 0, "again", service.ann)),
        (NotFound, "version 7", lambda: w.promote(agent, 7, 0, "new", service.ann)),
        (NotFound, "agent 99", lambda: w.promote(99, 1, 0, "new", service.ann)),
        (Conflict, "is live, and only candidates", lambda: w.discard(agent, 0, "old", service.ann)),
        (Conflict, "promote it", lambda: w.roll_back(agent, 1, service.ann)),
        (BadOption, "between 0.001 and 1", lambda: w.set_rollout(agent, service.ann, shadow_share=0)),
        (BadOption, "'live' or as", lambda: w.set_rollout(agent, service.ann, "shadow")),  # type: ignore[arg-type]
    ]
    for kind, words, attempt in refused:
        with pytest.raises(kind, match=words):
            attempt()
    assert (w.agent(agent), stages(w, agent), w.stage_changes(agent)) == before
    w.promote(agent, 1, 0, "better", service.ann)
    with pytest.raises(Conflict, match="roll back to it"):
        w.promote(agent, 0, 1, "as before", service.ann)
    with pytest.raises(Conflict, match="only candidates are discarded"):
        w.discard(agent, 0, "old", service.ann)


def test_a_candidate_that_an_adaptation_builds_on_is_not_discarded(service: Service) -> None:
    w, agent = service.workspace, service.agent
    with_candidate(service)
    task = w.start(agent, service.pool, 8, service.ann, version=1).id
    with pytest.raises(Conflict, match=f"adaptation {task} builds on version 1"):
        w.discard(agent, 1, "worse", service.ann)
    w.drop(task, service.ann)
    w.discard(agent, 1, "worse", service.ann)


@pytest.mark.parametrize(
    "command",
    [
        lambda w, agent, p: w.promote(agent, 1, 0, "better", p),
        lambda w, agent, p: w.discard(agent, 1, "worse", p),
        lambda w, agent, p: w.roll_back(agent, 0, p, "safe"),
        lambda w, agent, p: w.set_rollout(agent, p, "live"),
    ],
)
def test_only_administrators(service: Service, command: Callable[[Workspace, int, Person], object]) -> None:
    with_candidate(service)
    for person in (service.bob, service.eve):
        with pytest.raises(NotAllowed):
            command(service.workspace, service.agent, person)
    assert stages(service.workspace, service.agent) == ["live", "candidate"]


# -- two at once -----------------------------------------------------------------------------------------------


def test_of_two_who_promote_at_once_one_wins(service: Service) -> None:
    w, agent = service.workspace, service.agent
    with_candidate(service)
    version_made(service)
    outcomes: dict[int, object] = {}
    barrier = threading.Barrier(2)

    def promote(version: int) -> None:
        barrier.wait()
        try:
            outcomes[version] = w.promote(agent, version, 0, "mine", service.ann).version
        except CualError as error:
            outcomes[version] = error

    threads = [threading.Thread(target=promote, args=(version,)) for version in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = [version for version, outcome in outcomes.items() if outcome == version]
    lost = outcomes[3 - won]
    assert isinstance(lost, Conflict)
    assert f"version {won} is live by now, not version 0" in str(lost)
    assert w.agent(agent).version == won
    assert [change.version for change in w.stage_changes(agent)] == [won]


@pytest.fixture
def here(service: Service) -> Site:
    with site(service) as held:
        yield held


def client_of(here: Site, role: Role = Role.admin) -> Client:
    client = Client("http://127.0.0.1", "")
    client._http = here.bearer(role)  # type: ignore[assignment]
    return client


def test_over_http_and_from_the_client(here: Site) -> None:
    service = here.service
    client, reader = client_of(here), client_of(here, Role.reader)
    assert client.set_rollout(1, "candidate", shadow_share=0.5).new_versions == "candidate"
    assert client.set_rollout(1, shadow_share=1.0).shadow_share == 1.0
    with pytest.raises(NotFound, match="no candidate"):
        client.promote(1, why="any")
    with pytest.raises(NotFound, match="no candidate"):
        reader.shadow(1)
    version_made(service)
    seen = reader.agent(1)
    assert (seen.version, seen.candidate, seen.new_versions) == (0, 1, "candidate")
    with pytest.raises(NotAllowed):
        reader.promote(seen, why="me too")
    with pytest.raises(CualError):
        client.promote(seen)  # without a reason
    assert client.promote(seen, why="finds owls").version == 1
    admin = here.bearer()
    for body in ({"version": 1, "live": 0, "why": "me too"}, {"version": 1, "live": 1, "why": "me too"}):
        late = admin.post("/api/agents/1/promote", json=body)
        assert (late.status_code, late.json()["error"]) == (409, "Conflict")
    assert "somebody has promoted it" in late.json()["detail"]
    assert client.roll_back(1, 0, why="cats became dogs", live=1).version == 0
    late = admin.post("/api/agents/1/roll-back", json={"version": 0, "live": 1})
    assert (late.status_code, "version 0 is live by now" in late.json()["detail"]) == (409, True)
    assert client.start(1, 1, 8, version=1).state.base_version == 1
    version_made(service)
    assert client.discard(1, why="nothing new").candidate is None
    assert [(row["action"], row["person"], row["why"]) for row in reader.stages(1)] == [
        ("discard", "ann", "nothing new"),
        ("roll back", "ann", "cats became dogs"),
        ("promote", "ann", "finds owls"),
    ]
    assert [row["stage"] for row in reader.versions(1)] == ["live", "retired", "discarded"]
    for body in ({"new_versions": "retired"}, {"shadow_share": 0}, {"shadow_share": 2}, {"share": 1}):
        assert admin.put("/api/agents/1/rollout", json=body).status_code == 422
