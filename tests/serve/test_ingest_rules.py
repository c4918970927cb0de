"""What is kept of what is sent to an agent: once each, by the rules of its policy, within its limits."""

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from cual.errors import BadOption, Conflict, DamagedFile, NotAllowed, NotFound
from cual.serve.rules.inbox import files, planning
from cual.serve.rules.inbox.keeping import Inboxes
from cual.serve.rules.inbox.near import COMPARED, Latest, unit
from cual.serve.rules.inbox.records import Arrivals, Fate, Key, Policy, Verdict
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import Service

ALL = Policy(known_share=1.0)


def rows(n: int, seed: int = 0, width: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def arrivals(
    X: np.ndarray, verdict: Verdict | Sequence[Verdict] = "unlike anything known", **more: Any
) -> Arrivals:
    n = len(X)
    verdicts = [verdict] * n if isinstance(verdict, str) else verdict
    digests = [hashlib.sha256(row.tobytes()).hexdigest() for row in X]
    told: dict[str, Any] = {"labels": ["cat"] * n, "scores": [1.5] * n, "version": 0}
    return Arrivals(X, digests, verdicts, **{**told, **more})


def answer(fates: list[Fate]) -> bytes:
    return json.dumps(fates).encode()


def send(service: Service, sent: Arrivals, key: Key | None = None) -> list[str]:
    return json.loads(service.workspace.send(service.agent, sent, service.ann, answer, key))


def batch_files(service: Service) -> list[Path]:
    folder = files.folder_of(service.workspace.home, service.agent)
    return sorted(folder.iterdir()) if folder.exists() else []


# -- once each -------------------------------------------------------------------------------------------------


def test_what_is_sent_waits_with_its_features_and_times(service: Service) -> None:
    X = rows(5)
    assert send(service, arrivals(X)) == ["kept"] * 5
    waiting = service.workspace.unlike_samples(service.agent)
    np.testing.assert_array_equal(waiting.X, X)
    assert len(set(waiting.ids)) == len(waiting.arrived_at) == 5
    assert waiting.labels == ["cat"] * 5
    assert waiting.scores == [1.5] * 5
    record = service.workspace.inbox(service.agent)
    assert (record.waiting, record.arrived, record.bytes) == (5, 5, 5 * 4 * 16)
    assert record.by_verdict == {"known": 0, "unsure": 0, "unlike anything known": 5}


def test_before_anything_is_sent_nothing_waits(service: Service) -> None:
    record = service.workspace.inbox(service.agent)
    assert (record.waiting, record.since, record.counts, record.policy) == (0, None, [], Policy())
    assert service.workspace.unlike_samples(service.agent).X.shape == (0, 16)
    with pytest.raises(NotFound):
        service.workspace.inbox(99)


def test_exact_duplicates_are_kept_once_and_counted(service: Service) -> None:
    X = rows(2)
    assert send(service, arrivals(X[[0, 1, 0]])) == ["kept", "kept", "again"]
    assert send(service, arrivals(X[[1, 1]])) == ["again", "again"]
    assert service.workspace.unlike_samples(service.agent).times == [2, 3]
    (count,) = service.workspace.inbox(service.agent).counts
    assert (count.arrived, count.kept, count.again) == (5, 2, 3)


def test_near_duplicates_are_kept_once_within_a_request_and_across(service: Service) -> None:
    X = rows(3)
    near = (X * 1.7 + 1e-4).astype(np.float32)
    assert send(service, arrivals(np.stack([X[0], near[0], X[1]]))) == ["kept", "again", "kept"]
    assert send(service, arrivals(near)) == ["again", "again", "kept"]
    assert service.workspace.unlike_samples(service.agent).times == [3, 2, 1]


def test_without_a_cosine_near_duplicates_are_samples_of_their_own(service: Service) -> None:
    service.workspace.set_inbox_policy(service.agent, Policy(near=None), service.ann)
    X = rows(1)
    assert send(service, arrivals(np.concatenate([X, X * 2, X]))) == ["kept", "kept", "again"]


def test_near_duplicates_are_found_as_a_loop_finds_them() -> None:
    rng = np.random.default_rng(1)
    noise = np.tile([0.003, 0.003, 0.5], 300)[:, None]  # two that are nearly alike, one that is not
    X = np.repeat(rng.normal(size=(300, 8)), 3, axis=0) + noise * rng.normal(size=(900, 8))
    X = X[rng.permutation(900)].astype(np.float32)
    plan = planning.plan(arrivals(X), {}, Latest(), replace(ALL, near=0.999))
    kept: list[int] = []
    units = unit(X)
    for row in range(len(X)):
        if all(float(units[row] @ units[other]) <= 0.999 for other in kept):
            kept.append(row)
    assert plan.new == kept
    assert 300 <= len(kept) < 900
    assert sum(plan.times.values()) == 900


def test_comparing_is_bounded_and_forgets_what_is_dropped() -> None:
    latest, X = Latest(1), rows(COMPARED + 10, width=4)
    for start in range(0, len(X), 999):
        part = unit(X[start : start + 999])
        latest.add(list(range(start + 1, start + 1 + len(part))), part)
    assert latest.nearest(unit(X[-3:]), 0.999) == [len(X) - 2, len(X) - 1, len(X)]
    latest.drop([len(X)])
    assert latest.nearest(unit(X[-1:]), 0.99999) == [-1]
    assert latest.last == len(X)
    assert latest.nearest(unit(X[:1]), 0.99999) == [-1], "the earliest are no longer compared with"


@pytest.mark.parametrize("width", [3, 64, 1280])
def test_the_nearest_is_the_one_with_the_highest_cosine(width: int) -> None:
    rng = np.random.default_rng(width)
    X = rng.normal(size=(500, width)).astype(np.float32)
    near = X[:200] + rng.normal(0, 0.03, (200, width)).astype(np.float32)
    latest = Latest(1)
    latest.add(list(range(1, 501)), unit(X))
    cosines = unit(near) @ unit(X).T
    naive = [int(row.argmax()) + 1 if row.max() > 0.9985 else -1 for row in cosines]
    borderline = np.abs(cosines.max(axis=1) - 0.9985) < 5e-4
    found = latest.nearest(unit(near), 0.9985)
    if width > 3:  # of three numbers, several are about as near
        assert [f for f, b in zip(found, borderline, strict=True) if not b] == [
            n for n, b in zip(naive, borderline, strict=True) if not b
        ]
    assert [(f < 0) for f, b in zip(found, borderline, strict=True) if not b] == [
        (n < 0) for n, b in zip(naive, borderline, strict=True) if not b
    ]
    assert latest.nearest(unit(np.zeros((1, width))), 0.9) == [-1], "nothing is like nothing"


def test_after_a_start_what_is_kept_is_still_known(service: Service) -> None:
    X = rows(3)
    send(service, arrivals(X[:2]))
    service.workspace._inboxes = Inboxes(service.workspace.home)
    assert send(service, arrivals(X * 1.5)) == ["again", "again", "kept"]


def test_two_processes_keep_a_sample_once(service: Service) -> None:
    other = Workspace(service.workspace.home)
    X = rows(4)
    send(service, arrivals(X[:1]))
    other.send(service.agent, arrivals(X[1:3]), service.ann, answer)
    assert send(service, arrivals(X * 1.5)) == ["again", "again", "again", "kept"]
    other.close_inbox(service.agent, "closed elsewhere", service.ann)
    assert send(service, arrivals(X)) == ["kept"] * 4


# -- the sampling rule -----------------------------------------------------------------------------------------


def test_of_known_samples_a_share_is_kept_the_same_each_time(service: Service) -> None:
    X = rows(400, width=16)
    sent = arrivals(X, "known", labels=["cat", "dog"] * 200)
    fates = send(service, sent)
    assert fates == ["kept" if planning.is_chosen(d, 0.1) else "passed over" for d in sent.digests]
    assert 15 <= fates.count("kept") <= 70
    again = send(service, sent)
    assert again == ["again" if fate == "kept" else fate for fate in fates]
    counts = {count.label: count for count in service.workspace.inbox(service.agent).counts}
    assert [counts[label].arrived for label in ("cat", "dog")] == [400, 400], "the true mix is still known"
    assert sum(count.passed_over for count in counts.values()) == 2 * fates.count("passed over")


def test_unsure_and_unlike_samples_are_all_kept(service: Service) -> None:
    service.workspace.set_inbox_policy(service.agent, Policy(known_share=0), service.ann)
    verdicts: list[Verdict] = ["known", "unsure", "unlike anything known"] * 10
    fates = send(service, arrivals(rows(30), verdicts))
    assert fates == ["passed over", "kept", "kept"] * 10
    assert service.workspace.inbox(service.agent).by_verdict == {
        "known": 0,
        "unsure": 10,
        "unlike anything known": 10,
    }


# -- limits ----------------------------------------------------------------------------------------------------


def test_the_oldest_known_go_first_then_the_oldest_others(service: Service) -> None:
    service.workspace.set_inbox_policy(service.agent, replace(ALL, most_samples=4), service.ann)
    X = rows(6)
    for row, verdict in zip(X, ("unsure", "known", "unlike anything known", "known", "unsure"), strict=False):
        send(service, arrivals(row[None], verdict))
    assert _kept(service) == ["unsure", "unlike anything known", "known", "unsure"]
    send(service, arrivals(X[5:], "unsure"))
    assert _kept(service) == ["unsure", "unlike anything known", "unsure", "unsure"]
    send(service, arrivals(rows(1, seed=9), "unsure"))
    assert _kept(service) == ["unlike anything known", "unsure", "unsure", "unsure"]
    assert service.workspace.inbox(service.agent).dropped == 3
    assert len(batch_files(service)) == 4, "files that hold nothing any more are gone"
    assert send(service, arrivals(X[:1], "unsure")) == ["kept"], "what was dropped may come back"


def _kept(service: Service) -> list[str]:
    with service.workspace.database.reading() as connection:
        wanted = sa.select(db.inbox_samples.c.verdict).order_by(db.inbox_samples.c.id)
        return list(connection.execute(wanted).scalars())


def test_bytes_are_limited(service: Service) -> None:
    service.workspace.set_inbox_policy(service.agent, replace(ALL, most_megabytes=1), service.ann)
    for number in range(3):
        picture = bytes([number]) * 400_000
        send(service, arrivals(rows(1, seed=number), kind="picture", originals=[picture]))
    record = service.workspace.inbox(service.agent)
    assert (record.waiting, record.dropped) == (2, 1)
    assert record.bytes <= 10**6


def test_a_file_of_which_little_is_left_is_made_smaller(service: Service) -> None:
    workspace, agent = service.workspace, service.agent
    workspace.set_inbox_policy(agent, replace(ALL, most_samples=2), service.ann)
    X, originals = rows(6), [bytes([n]) * 50_000 for n in range(6)]
    verdicts: list[Verdict] = ["known", "unsure", "known", "known", "known", "unsure"]
    send(service, arrivals(X, verdicts, kind="picture", originals=originals))
    waiting = workspace.waiting_samples(agent)
    np.testing.assert_array_equal(waiting.X, X[[1, 5]])
    (file,) = batch_files(service)
    assert file.stat().st_size < 200_000
    kept = [workspace.waiting_original(agent, sample) for sample in waiting.ids]
    assert kept == [originals[1], originals[5]]
    service.workspace._inboxes = Inboxes(workspace.home)
    assert send(service, arrivals(X[[1, 5]] * 2, "unsure")) == ["again", "again"]


def test_what_is_too_old_goes(service: Service) -> None:
    send(service, arrivals(rows(2)))
    with service.workspace.database.writing() as connection:
        old = db.now() - timedelta(days=91)
        connection.execute(sa.update(db.inbox_samples).values(arrived_at=old))
    send(service, arrivals(rows(1, seed=5)))
    record = service.workspace.inbox(service.agent)
    assert (record.waiting, record.dropped) == (1, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"known_share": -0.1},
        {"known_share": float("nan")},
        {"near": 0.5},
        {"near": 1.0},
        {"most_samples": 0},
        {"most_megabytes": 10**9},
        {"most_days": 0},
    ],
)
def test_policies_have_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        Policy(**wrong)


# -- sent again ------------------------------------------------------------------------------------------------


def test_a_request_that_is_sent_again_is_answered_the_same_and_kept_once(service: Service) -> None:
    sent, key = arrivals(rows(3)), Key("mine", "body")
    assert send(service, sent, key) == ["kept"] * 3
    assert send(service, sent, key) == ["kept"] * 3
    assert service.workspace.sent_before(service.agent, service.ann, key) == answer(["kept"] * 3)
    assert service.workspace.inbox(service.agent).arrived == 3
    assert len(batch_files(service)) == 1


def test_many_who_send_at_once_keep_each_sample_once(service: Service) -> None:
    X, other = rows(3), Workspace(service.workspace.home)
    sent, key = arrivals(X), Key("mine", "body")
    everybody = [service.workspace, other] * 4

    def keep(workspace: Workspace) -> bytes:
        return workspace.send(service.agent, sent, service.ann, answer, key)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(keep, everybody)) == {answer(["kept"] * 3)}
        fates = list(threads.map(lambda w: w.send(service.agent, sent, service.ann, answer), everybody))
    assert set(fates) == {answer(["again"] * 3)}
    assert service.workspace.unlike_samples(service.agent).times == [9] * 3
    assert len(batch_files(service)) == 1


def test_a_key_is_good_for_one_request_of_one_person_for_a_day(service: Service) -> None:
    workspace, key = service.workspace, Key("mine", "body")
    send(service, arrivals(rows(1)), key)
    with pytest.raises(Conflict, match="another request"):
        send(service, arrivals(rows(2)), Key("mine", "other body"))
    assert workspace.sent_before(service.agent, service.bob, key) is None
    with workspace.database.reading() as connection:
        (row,) = connection.execute(sa.select(db.inbox_sends)).all()
    assert "mine" not in str(row), "nobody reads a key here"
    with workspace.database.writing() as connection:
        connection.execute(sa.update(db.inbox_sends).values(created_at=db.now() - timedelta(days=2)))
    assert workspace.sent_before(service.agent, service.ann, key) is None
    send(service, arrivals(rows(1)), key)
    assert workspace.inbox(service.agent).arrived == 2


def test_also_after_the_inbox_has_become_a_pool(service: Service) -> None:
    sent, key = arrivals(rows(3)), Key("mine", "body")
    send(service, sent, key)
    service.workspace.close_inbox(service.agent, "new", service.ann)
    service.work()
    assert send(service, sent, key) == ["kept"] * 3
    assert service.workspace.inbox(service.agent).waiting == 0


# -- a pool of it ----------------------------------------------------------------------------------------------


def test_an_inbox_becomes_a_pool_on_which_an_adaptation_can_begin(service: Service) -> None:
    workspace, world = service.workspace, service.world
    verdicts: list[Verdict] = ["unlike anything known"] * len(world.pool)
    send(service, arrivals(world.pool, verdicts, names=world.ids))
    pool = workspace.close_inbox(service.agent, " sent ", service.ann)
    assert (pool.name, pool.kind, pool.size, pool.state) == ("sent", "features", len(world.pool), "preparing")
    assert workspace.inbox(service.agent).waiting == 0
    service.work()
    assert workspace.pool(pool.id).state == "ready"
    assert workspace.columns(pool.id, [0])[0]["times"] == 1
    service.pool = pool.id
    task = service.start()
    assert {question.sample for question in workspace.questions(task)} <= set(world.ids)
    service.answer_all(task)
    assert service.finish(task).state == "finished"
    assert batch_files(service) == [], "the pool has all of it"
    with workspace.database.reading() as connection:
        assert not connection.execute(sa.select(db.inbox_samples)).all()


def test_nothing_makes_no_pool(service: Service) -> None:
    for _ in range(2):
        with pytest.raises(Conflict, match="nothing waits"):
            service.workspace.close_inbox(service.agent, "empty", service.ann)
        if not service.workspace.inbox(service.agent).waiting:
            send(service, arrivals(rows(1)))
            service.workspace.close_inbox(service.agent, "one", service.ann)


def test_texts_and_names_are_shown(service: Service) -> None:
    workspace = service.workspace
    texts = [f"text {n}".encode() for n in range(3)]
    send(service, arrivals(rows(3), kind="text", originals=texts, names=["a", "a", None]))
    send(service, arrivals(rows(1, seed=3)))  # features only
    pool = workspace.close_inbox(service.agent, "said", service.ann)
    service.work()
    assert workspace.pool(pool.id).kind == "text"
    assert [workspace.text(pool.id, row) for row in range(3)] == ["text 0", "text 1", "text 2"]
    with pytest.raises(NotFound):
        workspace.text(pool.id, 3)


def test_originals_are_thrown_away_where_the_policy_says_so(service: Service) -> None:
    workspace = service.workspace
    send(service, arrivals(rows(1), kind="text", originals=[b"kept words"]))
    workspace.set_inbox_policy(service.agent, Policy(originals=False), service.ann)
    send(service, arrivals(rows(1, seed=1), kind="text", originals=[b"secret words"]))
    waiting = workspace.unlike_samples(service.agent)
    assert waiting.has_original == [True, False]
    assert workspace.waiting_original(service.agent, waiting.ids[0]) == b"kept words"
    with pytest.raises(NotFound):
        workspace.waiting_original(service.agent, waiting.ids[1])
    assert not any(b"secret" in file.read_bytes() for file in batch_files(service))


# -- what stays behind -----------------------------------------------------------------------------------------


def test_files_of_killed_sends_are_removed_at_the_start_and_no_others(service: Service) -> None:
    send(service, arrivals(rows(2)))
    (kept,) = batch_files(service)
    files.write(service.workspace.home, service.agent, rows(1), [])
    (kept.parent / ".half.tmp").write_bytes(b"half")
    service.workspace.empty_uploads()
    assert batch_files(service) == [kept]
    assert len(service.workspace.unlike_samples(service.agent).ids) == 2


def test_what_is_refused_leaves_no_file(service: Service) -> None:
    with pytest.raises(NotFound):
        service.workspace.send(99, arrivals(rows(1)), service.ann, answer)
    key = Key("mine", "body")
    send(service, arrivals(rows(1)), key)
    with pytest.raises(Conflict):
        send(service, arrivals(rows(1, seed=2)), Key("mine", "other"))
    assert len(batch_files(service)) == 1
    for nobody in (service.bob, service.eve):
        with pytest.raises(NotAllowed):
            service.workspace.send(service.agent, arrivals(rows(1)), nobody, answer)


def test_deleting_takes_what_waits_along(service: Service) -> None:
    workspace = service.workspace
    send(service, arrivals(rows(2)))
    pool = workspace.close_inbox(service.agent, "sent", service.ann)
    send(service, arrivals(rows(2)))
    workspace.delete_pool(pool.id, service.ann)
    assert len(batch_files(service)) == 1, "those of the next pool stay"
    workspace.delete_agent(service.agent, service.ann)
    assert batch_files(service) == []
    with workspace.database.reading() as connection:
        for table in (db.inboxes, db.inbox_batches, db.inbox_samples, db.inbox_arrivals):
            assert not connection.execute(sa.select(table)).all()


def test_backups_carry_inboxes(service: Service, tmp_path: Path) -> None:
    X = rows(4)
    send(service, arrivals(X[:2], kind="text", originals=[b"a", b"b"]), Key("k", "b"))
    service.workspace.close_inbox(service.agent, "half made", service.ann)
    send(service, arrivals(X[2:], kind="text", originals=[b"c", b"d"]))
    file = service.workspace.backup(tmp_path / "all.backup", service.ann)
    restored = Workspace.restore(file, tmp_path / "restored")
    waiting = restored.unlike_samples(service.agent)
    np.testing.assert_array_equal(waiting.X, X[2:])
    assert restored.waiting_original(service.agent, waiting.ids[0]) == b"c"
    from cual.serve.jobs.worker import work_until_idle

    work_until_idle(restored)
    assert restored.pools()[0].state == "ready"
    restored.close()


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a" * 31, "A" * 32])
def test_only_our_own_names_become_paths(service: Service, name: str) -> None:
    with pytest.raises(DamagedFile):
        files.file_of(service.workspace.home, service.agent, name)
