"""Watching: every sample that is judged is counted, and what follows of it is told, proposed or begun."""

import io
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
import yaml
from PIL import Image

from cual.errors import BadOption, Conflict, NotAllowed, NotFound
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.watching import noting
from cual.serve.rules.watching.noting import HOUR, MINUTE
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from cual.serve.web.watching import measuring
from serving import Service, make_service
from visiting import Site, site
from watched import look, new_class, send_unlike
from worlds import World

ROOT = Path(__file__).parents[2]


def predict(here: Site, X: np.ndarray, what: str = "predict", **params: Any) -> dict[str, Any]:
    buffer = io.BytesIO()
    np.save(buffer, X)
    headers = {"Content-Type": "application/x-npy"}
    url = f"/api/agents/{here.service.agent}/{what}"
    said = here.bearer(Role.reader).post(url, content=buffer.getvalue(), headers=headers, params=params)
    assert said.status_code == 200, said.text
    return said.json()


def watching(here: Site, **params: Any) -> dict[str, Any]:
    here.app.state.gathering.flush()
    said = here.bearer(Role.reader).get(f"/api/agents/{here.service.agent}/watching", params=params)
    assert said.status_code == 200, said.text
    return said.json()


def counts(workspace: Workspace) -> list[Any]:
    with workspace.database.reading() as connection:
        return list(connection.execute(sa.select(db.watch_counts).order_by(db.watch_counts.c.start)).all())


def metrics(here: Site) -> dict[str, float]:
    lines = here.visitor().get("/metrics").text.splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line[:1] != "#"}


# -- counting --------------------------------------------------------------------------------------------------


def test_every_sample_that_is_judged_is_counted_once(service: Service) -> None:
    world = service.world
    with site(service) as here:
        judged = predict(here, world.pool)
        predict(here, world.X[:7], "novelty")
        predict(here, world.X[:5], verdicts="false")  # nothing is judged then
        predict(here, world.X[:5], "probabilities")
        told = watching(here)
    unlike = judged["verdicts"].count("unlike anything known")
    unsure = judged["verdicts"].count("unsure")
    known_unlike = (
        service.workspace.load_agent(service.agent).novelty(world.X[:7]) > judged["threshold"]
    ).sum()
    (row, *others) = counts(service.workspace)
    assert row.seen + sum(other.seen for other in others) == len(world.pool) + 7
    assert told["seen"] == len(world.pool) + 7
    assert told["unlike"] == unlike + known_unlike
    assert sum(point["unlike"] for point in told["points"]) == told["unlike"]
    assert sum(point["unsure"] for point in told["points"]) == unsure
    assert told["share"]["low"] <= told["share"]["value"] <= told["share"]["high"]


def test_what_is_sent_is_counted_as_well(service: Service) -> None:
    X = new_class(30)
    with site(service) as here:
        url = f"/api/agents/{service.agent}/send"
        assert here.bearer().post(url, json={"features": X.tolist()}).status_code == 200
        told = watching(here)
        assert (told["seen"], told["unlike"]) == (30, 30)
        look(service.workspace)
        (group,) = watching(here)["groups"]["groups"]
        assert group["size"] == 30
        assert {example["original"] for example in group["examples"]} == {None}


def test_the_class_mix_is_that_of_samples_that_look_known(service: Service) -> None:
    with site(service) as here:
        judged = predict(here, service.world.pool)
        told = watching(here)
    known = [
        label
        for label, verdict in zip(judged["labels"], judged["verdicts"], strict=True)
        if verdict != "unlike anything known"
    ]
    assert {row["label"]: round(row["now"] * len(known)) for row in told["mix"]} == {
        label: known.count(label) for label in set(known)
    }


def test_a_rate_that_one_request_asks_for_does_not_count(service: Service) -> None:
    with site(service) as here:
        own = predict(here, service.world.pool)
        predict(here, service.world.pool, false_alarms=0.5)
        told = watching(here)
    assert told["unlike"] == 2 * own["verdicts"].count("unlike anything known")


def test_nothing_is_written_per_request_and_all_of_it_at_the_end(service: Service) -> None:
    with site(service) as here:
        here.app.state.gathering._ending.set()  # nobody flushes meanwhile
        for row in range(5):
            predict(here, service.world.pool[row : row + 1])
        assert counts(service.workspace) == []
    assert sum(row.seen for row in counts(service.workspace)) == 5


def test_what_cannot_be_written_is_kept_for_the_next_time(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(service) as here:
        predict(here, service.world.pool)

        def broken(*_: Any) -> None:
            raise OSError("no database")

        with monkeypatch.context() as patched:
            patched.setattr(noting, "note", broken)
            with pytest.raises(OSError, match="no database"):
                here.app.state.gathering.flush()
        predict(here, service.world.pool[:1])
        assert watching(here)["seen"] == len(service.world.pool) + 1


def test_minutes_become_hours_and_hours_are_forgotten(service: Service) -> None:
    workspace = service.workspace
    with site(service) as here:
        predict(here, service.world.pool)
        here.app.state.gathering.flush()
    (row,) = counts(workspace)
    assert row.seconds == MINUTE
    noting.roll_up(workspace.home, db.now() + timedelta(days=2))
    noting.roll_up(workspace.home, db.now() + timedelta(days=2))
    (hour,) = counts(workspace)
    assert (hour.seconds, hour.seen, hour.unlike, hour.mix) == (HOUR, row.seen, row.unlike, row.mix)
    noting.roll_up(workspace.home, db.now() + timedelta(days=100))
    assert counts(workspace) == []


def test_counts_of_a_deleted_agent_go_with_it(service: Service) -> None:
    workspace = service.workspace
    other = workspace.add_agent("other", service.world.agent(), OPERATOR).id
    workspace.add_webhook(other, "https://hooks.example.org/", service.ann)
    with site(service) as here:
        here.service.agent = other
        predict(here, service.world.pool)
        here.app.state.gathering.flush()
        predict(here, service.world.pool)
        workspace.delete_agent(other, service.ann)
        here.app.state.gathering.flush()  # what came before is counted nowhere, and harms nobody
    assert counts(workspace) == []


# -- alerts ----------------------------------------------------------------------------------------------------


@pytest.fixture
def plus(workspace: Workspace, world: World) -> Service:
    """The same with cual-plus and enough validation samples to tell something."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(6 * c, 1, (500, 16)) for c in (-1, 1)]).astype(np.float32)
    big = World(X, ["cat"] * 500 + ["dog"] * 500, world.pool, world.truth)
    return make_service(workspace, big, method="cual-plus")


def known(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (6 * rng.choice([-1, 1], n)[:, None] + rng.normal(0, 1, (n, 16))).astype(np.float32)


def test_a_class_that_appears_is_told_of_within_seventy_of_its_samples(plus: Service) -> None:
    rng = np.random.default_rng(3)
    with site(plus) as here:
        for seed in range(5):
            predict(here, known(500, seed))
        quiet = watching(here)
        assert quiet["novelty_since"] is None
        assert quiet["drift_since"] is None
        sent = 0
        while watching(here)["novelty_since"] is None:
            batch = known(50, 100 + sent)
            batch[rng.choice(50, 5, replace=False)] = new_class(5, seed=sent)
            predict(here, batch)
            sent += 5
            assert sent <= 70, "docs/watching.md says so"
        assert metrics(here)[f'cual_novelty_alert{{agent="{plus.agent}"}}'] == 1
        assert watching(here)["drift_since"] is None


def test_another_version_begins_anew(service: Service) -> None:
    with site(service) as here:
        predict(here, service.world.pool)
        assert watching(here)["seen"] == len(service.world.pool)
        task = service.start()
        service.answer_all(task)
        service.finish(task)
        told = watching(here)
    assert (told["version"], told["seen"]) == (1, 0)
    assert len(told["points"]) == 1  # what was seen before stays


# -- groups and proposals --------------------------------------------------------------------------------------


def picture(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (shade, shade, 255 - shade)).save(buffer, "PNG")
    return buffer.getvalue()


def test_groups_are_found_with_pictures_and_an_adaptation_is_proposed(service: Service) -> None:
    send_unlike(service, 40, [picture(shade) for shade in range(40)])
    look(service.workspace)
    with site(service) as here:
        told = watching(here)
        (group,) = told["groups"]["groups"]
        assert (group["size"], group["like"]) == (40, None)
        assert told["proposal"]["questions"] == 5
        assert told["proposal"]["settled"] == 40
        reader = here.bearer(Role.reader)
        url = f"/api/agents/{service.agent}/watching/pictures"
        shown = reader.get(f"{url}/{group['examples'][0]['sample']}")
        assert shown.headers["content-type"] == "image/webp"
        assert Image.open(io.BytesIO(shown.content)).size == (40, 30)
        shown_ids = {example["sample"] for example in group["examples"]}
        other = next(i for i in range(1, 41) if i not in shown_ids)
        assert reader.get(f"{url}/{other}").status_code == 404  # waits, but is no example
        assert metrics(here)[f'cual_unlike_groups{{agent="{service.agent}"}}'] == 1
        assert metrics(here)[f'cual_waiting_samples{{agent="{service.agent}"}}'] == 40


def test_what_is_no_picture_is_not_shown(service: Service) -> None:
    send_unlike(service, 40, [b"no picture %d" % n for n in range(40)])
    look(service.workspace)
    with site(service) as here:
        (group,) = watching(here)["groups"]["groups"]
        sample = group["examples"][0]["sample"]
        said = here.bearer(Role.reader).get(f"/api/agents/{service.agent}/watching/pictures/{sample}")
        assert said.status_code == 404


def test_texts_are_examples_too(service: Service) -> None:
    send_unlike(service, 40, [f"Wo ist sie? {n} ä".encode() for n in range(40)], kind="text")
    look(service.workspace)
    (group,) = service.workspace.watching(service.agent).groups.groups  # pyright: ignore[reportOptionalMemberAccess]
    sample = group.examples[0].sample
    assert service.workspace.group_example(service.agent, sample, "text").decode().startswith("Wo ist sie?")
    with pytest.raises(NotFound, match="is no picture"):
        service.workspace.group_example(service.agent, sample, "picture")


def test_few_samples_are_not_worth_it(service: Service) -> None:
    send_unlike(service, 12)
    look(service.workspace)
    told = service.workspace.watching(service.agent)
    assert told.groups is not None
    assert [group.size for group in told.groups.new] == [12]
    assert told.proposal is None
    with pytest.raises(Conflict, match="no adaptation is proposed"):
        service.workspace.begin_proposed(service.agent, service.ann)


def test_a_proposal_is_begun_by_hand_and_finds_the_class(service: Service) -> None:
    workspace, agent = service.workspace, service.agent
    send_unlike(service, 40)
    look(workspace)
    told = workspace.begin_proposed(agent, service.ann)
    assert told.proposal is not None
    assert told.proposal.pool is not None
    with pytest.raises(Conflict, match="has begun already"):
        workspace.begin_proposed(agent, service.ann)
    look(workspace)  # the pool is not ready yet
    service.work()
    look(workspace)
    look(workspace)
    (task,) = workspace.adaptations()
    assert (task.pool, task.budget) == (told.proposal.pool, told.proposal.questions)
    service.work()
    while workspace.adaptation(task.id).state == "asking":
        lent = workspace.lend(task.id, service.ann, 100)
        workspace.answer(task.id, service.ann, {q.id: "zebra" for q in lent})
        service.work()
    service.finish(task.id)
    assert "zebra" in workspace.agent(agent).classes
    noting.note(workspace.home, [], db.now())
    look(workspace)
    assert workspace.watching(agent).proposal is None


def test_it_begins_by_itself_only_where_somebody_allows_that(service: Service) -> None:
    workspace, agent = service.workspace, service.agent
    with pytest.raises(NotAllowed, match="somebody's name"):
        workspace.set_watching(agent, OPERATOR, starts=True)
    send_unlike(service, 40)
    look(workspace)
    look(workspace)
    assert workspace.adaptations() == []
    assert workspace.set_watching(agent, service.ann, starts=True, most_questions=20).starts
    look(workspace)
    service.work()
    look(workspace)
    (task,) = workspace.adaptations()
    assert task.agent == agent
    (started,) = [row for row in workspace.audit(OPERATOR) if row.action == "start"]
    assert started.person == "ann"


def test_nothing_begins_in_the_name_of_somebody_who_may_not_any_more(service: Service) -> None:
    workspace = service.workspace
    workspace.set_watching(service.agent, service.ann, starts=True)
    with workspace.database.writing() as connection:
        connection.execute(sa.update(db.people).where(db.people.c.id == service.ann.id).values(active=False))
    send_unlike(service, 40)
    look(workspace)
    look(workspace)
    told = workspace.watching(service.agent)
    assert told.proposal is not None
    assert told.proposal.pool is None


def test_nothing_is_proposed_while_an_adaptation_is_under_way(service: Service) -> None:
    service.start()
    send_unlike(service, 40)
    look(service.workspace)
    told = service.workspace.watching(service.agent)
    assert told.groups is not None
    assert told.proposal is None


@pytest.mark.parametrize("wrong", [{"most_questions": 0}, {"least_gain": 0.5}, {"most_questions": 10**6}])
def test_settings_have_limits(service: Service, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="an adaptation may cost"):
        service.workspace.set_watching(service.agent, service.ann, **wrong)
    with site(service) as here:
        said = here.bearer().put(f"/api/agents/{service.agent}/watching", json=wrong)
        assert said.status_code == 422


# -- metrics ---------------------------------------------------------------------------------------------------


def test_counters_and_gauges_tell_the_same(service: Service) -> None:
    with site(service) as here:
        predict(here, service.world.pool)
        told, found, label = watching(here), metrics(here), f'{{agent="{service.agent}"}}'
    assert found[f"cual_judged_samples_total{label}"] == told["seen"]
    assert found[f"cual_unlike_samples_total{label}"] == told["unlike"]
    assert found[f"cual_unlike_share{label}"] == pytest.approx(told["share"]["value"])
    assert found[f"cual_unlike_share_low{label}"] == pytest.approx(told["share"]["low"])
    assert found[f"cual_false_alarms_most{label}"] == pytest.approx(told["false_alarms_at_most"])


def test_labels_are_bounded(service: Service) -> None:
    with site(service) as here:
        for agent in range(1000, 1000 + measuring.MOST_AGENTS + 50):
            here.app.state.metrics.judged(agent, 1, 0, 0)
        seen = [name for name in metrics(here) if name.startswith("cual_judged_samples_total")]
    assert len(seen) == measuring.MOST_AGENTS + 1
    assert f'cual_judged_samples_total{{agent="{measuring.OTHERS}"}}' in seen


def test_the_dashboard_and_the_alert_rules_name_metrics_that_exist(plus: Service) -> None:
    with site(plus) as here:
        for seed in range(7):
            predict(here, known(500, seed))
        watching(here)
        text = here.visitor().get("/metrics").text
    there = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    there |= {f"{name}_total" for name in there} | {f"{name}_bucket" for name in there}
    with_values = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[:1] != "#"}
    dashboard = json.loads((ROOT / "deploy" / "grafana-watching.json").read_text(encoding="utf-8"))
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus-rules.yml").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(dashboard["panels"]) >= 4
    assert {"alert", "expr", "labels", "annotations"} <= set(rules["groups"][0]["rules"][0])
    for expression in asked:
        for name in re.findall(r"\bcual_\w+", expression):
            assert name in there, name
            assert name in with_values, name
