"""Jobs that kill or stall whoever does them: given up after a few tries, told in a sentence, others go on.

Workers are real processes, and really die.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from PIL import Image

from cual import Agent, Pool
from cual.encoders import base, encoders
from cual.encoders.images import ImageInput, open_image
from cual.errors import BadFile, BadImage, Conflict, NotFound
from cual.serve.jobs import decoding
from cual.serve.jobs.decoding import DecodeLimits, Decoders
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules import jobs, pools, removing
from cual.serve.rules.crashes import MOST_TOGETHER
from cual.serve.rules.records import OPERATOR, JobRecord
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import backup, migrations
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database
from processes import children
from running import until
from serving import Service
from visiting import Site, site
from worlds import SMALL, World

pytestmark = pytest.mark.attacks

KILL = "os.kill(os.getpid(), signal.SIGKILL)"
HOLD = "re.match('(a+)+$', 64 * 'a' + 'b')  # never lets go of the interpreter"


@contextlib.contextmanager
def worker(workspace: Workspace, *more: str, **harms: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of its own which does harm before jobs of some kinds: ``worker(w, prepare="os._exit(9)")``."""
    lines = ["import os, re, signal, time", "from pathlib import Path", "from cual.serve.jobs import worker"]
    for kind, harm in harms.items():
        lines += [f"def {kind}(home, claim, progress, rightly=worker.WORK[{kind!r}]):"]
        lines += [textwrap.indent(harm, "    "), "    rightly(home, claim, progress)"]
        lines += [f"worker.WORK[{kind!r}] = {kind}"]
    lines += ["from cual.serve.worker import main", f"main({[str(workspace.folder), *more]!r})"]
    url = workspace.database.url.render_as_string(hide_password=False)
    running = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "CUAL_DATABASE": url, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def slowly(go: Path) -> str:
    """Work that tells of its progress until there is a file."""
    return f"while not Path({str(go)!r}).exists():\n    progress('encoding', 1, 2)\n    time.sleep(0.05)"


def job_of(workspace: Workspace, pool: int) -> JobRecord:
    return next(job for job in workspace.jobs() if job.pool == pool)


def add_pools(service: Service, n: int) -> list[int]:
    world = service.world
    return [
        service.workspace.add_pool(f"pool {i}", Pool(world.pool, world.ids), service.agent, OPERATOR).id
        for i in range(n)
    ]


# -- the job is to blame ---------------------------------------------------------------------------------------


def test_a_pool_that_kills_its_worker_is_given_up_and_the_next_is_prepared(service: Service) -> None:
    w = service.workspace
    poison, innocent = add_pools(service, 2)
    with worker(w, prepare=f"if claim.pool == {poison}:\n    progress('encoding', 32, 100)\n    {KILL}"):
        until(lambda: w.pool(innocent).state == "ready")
        until(lambda: w.pool(poison).state == "failed")
    error = w.pool(poison).error or ""
    assert "died 3 times while it prepared this pool, last at stage encoding (32 of 100)" in error
    assert "memory" in error
    job = job_of(w, poison)
    assert (job.state, job.attempt, job.crashes, job.failures) == ("failed", 3, 3, 0)
    assert job.error == error


def test_a_repair_whose_worker_dies_while_it_trains_is_done_again_to_the_bit(
    service: Service, tmp_path: Path
) -> None:
    w = service.workspace
    expected = w.load_agent(service.agent).merge_classes("cat", "dog", person="ann")
    expected.save(tmp_path / "expected.agent")
    asked = w.merge_classes(service.agent, "cat", ["dog"], service.ann)
    dying = f"""
        tell = progress
        def progress(stage, done, total):
            if claim.attempt == 1 and stage == "training again" and done > 1:
                {KILL}
            tell(stage, done, total)
    """
    with worker(w, repair=textwrap.dedent(dying)):
        until(lambda: w.repair(service.agent, asked.id).state != "preparing")
    done = w.repair(service.agent, asked.id)
    assert (done.state, done.version) == ("done", 1), done.error
    job = next(job for job in w.jobs() if job.repair == asked.id)
    assert (job.attempt, job.crashes) == (2, 1)
    assert [version.number for version in w.versions(service.agent)] == [0, 1]
    assert service.agent_bytes(1) == (tmp_path / "expected.agent").read_bytes()


@pytest.mark.parametrize("code", [9, 0])
def test_a_step_that_ends_its_worker_does_not_hold_up_other_adaptations(service: Service, code: int) -> None:
    w = service.workspace
    poison, innocent = (w.start(service.agent, service.pool, 8, service.ann).id for _ in range(2))
    with worker(w, advance=f"if claim.adaptation == {poison}: os._exit({code})"):
        until(lambda: w.adaptation(innocent).state == "asking")
        until(lambda: w.adaptation(poison).state == "failed")
    record = w.adaptation(poison)
    assert "died 3 times while it worked out the next questions" in (record.error or "")
    assert f"ended with code {code}" in (record.error or "")
    assert "try again" in record.next
    w.retry(poison, OPERATOR)
    with worker(w):
        until(lambda: w.adaptation(poison).state == "asking")
    assert w.adaptation(poison).error is None


def test_a_step_done_while_a_pool_is_prepared_is_blamed_and_not_the_pool(service: Service) -> None:
    w, go = service.workspace, service.workspace.folder / "go"
    (pool,) = add_pools(service, 1)
    with worker(w, prepare=slowly(go), advance=KILL):
        until(lambda: job_of(w, pool).state == "running")
        adaptation = w.start(service.agent, service.pool, 8, service.ann).id
        until(lambda: w.adaptation(adaptation).state == "failed")
        go.touch()
        until(lambda: w.pool(pool).state == "ready")
    job = job_of(w, pool)
    assert job.attempt > 1
    assert job.crashes == 0


def test_a_job_that_would_exit_has_failed(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    with worker(w, prepare="raise SystemExit(3)") as running:
        until(lambda: w.pool(pool).state == "failed")
        assert running.poll() is None
    assert (w.pool(pool).error, job_of(w, pool).failures) == ("SystemExit: 3", 5)


@pytest.mark.parametrize("harm", ["time.sleep(600)", HOLD])
def test_a_job_that_makes_no_progress_is_given_up(service: Service, harm: str) -> None:
    w = service.workspace
    poison, innocent = add_pools(service, 2)
    with worker(w, "--patience", "1", prepare=f"if claim.pool == {poison}: {harm}"):
        until(lambda: w.pool(poison).state == "failed")
        until(lambda: w.pool(innocent).state == "ready")
    assert "it made no progress for 1 second" in (w.pool(poison).error or "")


def test_a_job_that_tells_of_progress_may_take_as_long_as_it_likes(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    harm = "for n in range(50):\n    progress('encoding', n, 100)\n    time.sleep(0.1)"
    with worker(w, "--patience", "4", prepare=harm):
        until(lambda: w.pool(pool).state == "ready")
    assert job_of(w, pool).crashes == 0


# -- it is not -------------------------------------------------------------------------------------------------


def test_kills_of_the_worker_itself_are_no_verdict(service: Service) -> None:
    """Whoever ends the whole service, or pulls the plug, ends innocent jobs."""
    w = service.workspace
    (pool,) = add_pools(service, 1)
    for n in range(1, 5):
        with worker(w, prepare="time.sleep(600)") as running:
            until(lambda n=n: due(service) or job_of(w, pool).attempt == n)
            running.kill()
            running.wait()
    with worker(w):
        until(lambda: due(service) or w.pool(pool).state == "ready")
    job = job_of(w, pool)
    assert (job.state, job.crashes, job.attempt, job.error) == ("done", 4, 5, None)


def test_asked_to_end_a_worker_gives_back_even_what_does_not_listen(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    with worker(w, prepare=HOLD) as running:
        until(lambda: job_of(w, pool).state == "running")
        running.send_signal(signal.SIGTERM)
        assert running.wait(180) == 0
    job = job_of(w, pool)
    assert (job.state, job.crashes, job.failures) == ("waiting", 0, 0)


def test_nothing_of_a_killed_worker_goes_on(service: Service) -> None:
    w = service.workspace
    add_pools(service, 1)
    note = w.folder / "pid"
    harm = f"Path({str(note)!r}).write_text(str(os.getpid()))\ntime.sleep(600)"
    with worker(w, prepare=harm) as running:
        until(lambda: note.exists() and note.read_text() != "")
        runner = int(note.read_text())
        assert runner != running.pid
        assert jobs.started(runner)
        running.kill()
        running.wait()
    until(lambda: not jobs.started(runner))


def abandon(service: Service, pool: int, **values: object) -> None:
    """Leave the pool's job as one whose worker is gone, with its machine."""
    gone = {"state": "running", "worker": "elsewhere 1 1", "heartbeat": None, **values}
    with service.workspace.database.writing() as c:
        c.execute(sa.update(db.jobs).where(db.jobs.c.pool == pool).values(**gone))


def due(service: Service) -> None:
    """Let nothing wait for its time."""
    with service.workspace.database.writing() as c:
        c.execute(sa.update(db.jobs).values(not_before=db.now()))


def test_even_kills_of_everything_come_to_an_end(service: Service) -> None:
    """As in a container that is killed as a whole when one of its processes needs too much."""
    w = service.workspace
    (pool,) = add_pools(service, 1)
    for n in range(1, MOST_TOGETHER + 1):
        assert w.pool(pool).state == "preparing"
        abandon(service, pool, stage="encoding", done=64, total=100)
        due(service)
        jobs.claim(w.home, jobs.identity())
        assert job_of(w, pool).crashes == n
    assert job_of(w, pool).state == w.pool(pool).state == "failed"
    assert f"died {MOST_TOGETHER} times" in (w.pool(pool).error or "")


def test_a_long_job_on_a_machine_that_often_restarts_ends_some_day(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    stages = [("encoding", 32 * n) for n in range(1, 40)] + [("pictures", 5), ("pictures", 9), ("map", 0)]
    for stage, done in stages:
        abandon(service, pool, stage=stage, done=done, total=2000)
        due(service)
        jobs.claim(w.home, jobs.identity())
        assert job_of(w, pool).crashes == 1, "it has got further since the last one"
    abandon(service, pool, stage="pictures", done=9, total=2000)
    due(service)
    jobs.claim(w.home, jobs.identity())
    assert job_of(w, pool).crashes == 2


def test_a_step_keeps_nothing_so_its_reports_are_no_progress(service: Service) -> None:
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    for n in range(1, 5):
        values = {
            "state": "running",
            "worker": "elsewhere 1 1",
            "heartbeat": None,
            "stage": "adapting",
            "done": n,
        }
        with w.database.writing() as c:
            c.execute(sa.update(db.jobs).where(db.jobs.c.adaptation == adaptation).values(**values))
        due(service)
        jobs.claim(w.home, jobs.identity())
        assert w.jobs()[0].crashes == n


def test_what_has_crashed_goes_behind_what_has_not(service: Service) -> None:
    w = service.workspace
    first, second = add_pools(service, 2)
    abandon(service, first)
    claim = jobs.claim(w.home, jobs.identity())
    assert claim is not None
    assert claim.pool == second
    with w.database.reading() as c:
        waits = sa.select(db.jobs.c.state, db.jobs.c.not_before).where(db.jobs.c.pool == first)
        assert c.execute(waits).one().state == "waiting"


def test_each_crash_is_followed_by_a_longer_pause(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    pauses: list[float] = []
    for _ in range(14):
        abandon(service, pool)
        before = db.now()
        jobs.claim(w.home, jobs.identity())
        with w.database.reading() as c:
            until_then = c.execute(sa.select(db.jobs.c.not_before).where(db.jobs.c.pool == pool)).scalar_one()
        pauses.append(round((until_then - before).total_seconds()))
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]


# -- cancelled, tried again, deleted ---------------------------------------------------------------------------


@pytest.fixture
def here(service: Service) -> Iterator[Site]:
    with site(service) as held:
        yield held


def test_an_administrator_cancels_a_pool_that_is_being_prepared(here: Site) -> None:
    w, go = here.service.workspace, here.service.workspace.folder / "go"
    unwanted, wanted = add_pools(here.service, 2)
    with worker(w, prepare=f"if claim.pool == {unwanted}:\n" + textwrap.indent(slowly(go), "    ")):
        until(lambda: job_of(w, unwanted).state == "running")
        answer = here.browser().post(f"/api/jobs/{job_of(w, unwanted).id}/cancel")
        assert (answer.status_code, answer.json()["state"]) == (200, "failed")
        assert (w.pool(unwanted).state, w.pool(unwanted).error) == ("failed", "cancelled by ann")
        until(lambda: w.pool(wanted).state == "ready")
        go.touch()
        again = here.browser().post(f"/api/jobs/{job_of(w, unwanted).id}/retry")
        assert (again.status_code, again.json()["pool"], again.json()["state"]) == (201, unwanted, "waiting")
        until(lambda: w.pool(unwanted).state == "ready")
    assert w.pool(unwanted).error is None


def test_cancelling_ends_even_what_does_not_listen(service: Service) -> None:
    w = service.workspace
    unwanted, wanted = add_pools(service, 2)
    with worker(w, prepare=f"if claim.pool == {unwanted}: time.sleep(600)") as running:
        until(lambda: job_of(w, unwanted).state == "running")
        w.cancel_job(job_of(w, unwanted).id, service.ann)
        until(lambda: w.pool(wanted).state == "ready")
        assert running.poll() is None
    job = job_of(w, unwanted)
    assert (job.state, job.crashes) == ("failed", 0)


def test_a_step_is_cancelled_and_tried_again(here: Site) -> None:
    service, admin = here.service, here.bearer()
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    job = w.jobs()[0].id
    assert admin.post(f"/api/jobs/{job}/cancel").status_code == 200
    assert (w.adaptation(adaptation).state, w.adaptation(adaptation).error) == ("failed", "cancelled by ann")
    again = admin.post(f"/api/jobs/{job}/retry").json()
    assert (again["adaptation"], again["kind"], again["state"]) == (adaptation, "advance", "waiting")
    service.work()
    assert w.adaptation(adaptation).state == "asking"


def test_what_is_over_is_neither_cancelled_nor_tried_again(here: Site) -> None:
    admin, done = here.bearer(), here.service.workspace.jobs()[0].id
    for what in ("cancel", "retry"):
        assert admin.post(f"/api/jobs/{done}/{what}").status_code == 409
        assert admin.post(f"/api/jobs/999/{what}").status_code == 404


def test_a_pool_is_tried_again_once(service: Service) -> None:
    w = service.workspace
    (pool,) = add_pools(service, 1)
    failed = w.cancel_job(job_of(w, pool).id, service.ann).id
    w.retry_job(failed, OPERATOR)
    with pytest.raises(Conflict, match="it is preparing"):
        w.retry_job(failed, OPERATOR)


def test_a_pool_is_deleted_with_all_that_was_of_it(here: Site) -> None:
    w, admin = here.service.workspace, here.browser()
    (pool,) = add_pools(here.service, 1)
    here.service.work()
    folder = w.home.pool_folder(pool)
    assert folder.exists()
    assert admin.delete(f"/api/pools/{pool}").status_code == 204
    assert not folder.exists()
    assert [p.name for p in folder.parent.iterdir()] == [str(here.service.pool)]
    assert {job.pool for job in w.jobs()} == {here.service.pool}
    for answer in (admin.get(f"/api/pools/{pool}"), admin.delete(f"/api/pools/{pool}")):
        assert answer.status_code == 404


def test_a_pool_that_is_needed_stays(here: Site) -> None:
    service = here.service
    first, second = service.start(), service.start()
    service.workspace.drop(second, OPERATOR)
    answer = here.bearer().delete(f"/api/pools/{service.pool}")
    assert answer.status_code == 409
    assert f"needed by adaptation {first}, which is under way: " in answer.json()["detail"]
    assert service.workspace.picture(service.pool, 0).exists()


def test_a_pool_is_deleted_while_it_is_being_prepared(service: Service) -> None:
    w, go = service.workspace, service.workspace.folder / "go"
    unwanted, wanted = add_pools(service, 2)
    with worker(w, prepare=f"if claim.pool == {unwanted}:\n" + textwrap.indent(slowly(go), "    ")):
        until(lambda: job_of(w, unwanted).state == "running")
        w.delete_pool(unwanted, OPERATOR)
        until(lambda: w.pool(wanted).state == "ready")
    assert not w.home.pool_folder(unwanted).exists()


def test_a_deletion_that_was_cut_short_is_ended_at_the_next_start(service: Service) -> None:
    w = service.workspace
    pool, other = add_pools(service, 2)
    service.work()
    url = w.database.url.render_as_string(hide_password=False)
    code = (
        "import os\n"
        "from cual.serve.rules import removing\n"
        "from cual.serve.rules.records import OPERATOR\n"
        "from cual.serve.rules.workspace import Workspace\n"
        "removing.sweep = lambda home: os._exit(9)\n"  # after the row is gone, before the folder is
        f"Workspace.open({str(w.folder)!r}, {url!r}).delete_pool({pool}, OPERATOR)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert w.home.pool_folder(pool).exists()
    with worker(w):
        until(lambda: not w.home.pool_folder(pool).exists())
        until(lambda: not list(w.home.pool_folder(pool).parent.glob("*.deleted")))
    assert w.home.pool_folder(other).exists()


def test_nothing_is_removed_because_a_database_does_not_know_it(service: Service, tmp_path: Path) -> None:
    """As when somebody names the wrong one."""
    w = service.workspace
    other = Database(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    migrations.migrate(other)  # to open a workspace on it is refused (`test_belonging`)
    removing.sweep(replace(w.home, database=other))
    assert w.home.pool_folder(service.pool).exists()
    (w.home.pool_folder(service.pool).parent / f"{service.pool}.deleted").touch()  # of one that was undone
    removing.sweep(w.home)
    assert w.picture(service.pool, 0).exists()
    other.close()


def test_a_pool_is_either_deleted_or_adapted_to(service: Service) -> None:
    w = service.workspace
    for pool in add_pools(service, 6):
        service.work()
        outcomes: dict[str, Any] = {}

        def attempt(name: str, act: Any, outcomes: dict[str, Any] = outcomes) -> None:
            try:
                outcomes[name] = act() or True
            except (Conflict, NotFound) as error:
                outcomes[name] = error

        threads = [
            threading.Thread(target=attempt, args=("deleted", lambda pool=pool: w.delete_pool(pool, OPERATOR))),
            threading.Thread(
                target=attempt,
                args=("started", lambda pool=pool: w.start(service.agent, pool, 8, service.ann)),
            ),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        deleted, started = outcomes["deleted"], outcomes["started"]
        assert isinstance(deleted, Conflict) != isinstance(started, NotFound)
        assert w.home.pool_folder(pool).exists() == isinstance(deleted, Conflict)


def test_a_backup_knows_no_pool_without_its_files(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w, link = service.workspace, backup._link
    (pool,) = add_pools(service, 1)
    service.work()

    def slow(source: Path, target: Path) -> None:
        monkeypatch.setattr(backup, "_link", link)
        w.delete_pool(pool, OPERATOR)
        link(source, target)

    monkeypatch.setattr(backup, "_link", slow)
    restored = Workspace.restore(w.backup(tmp_path / "one.backup", OPERATOR), tmp_path / "restored")
    assert [p.id for p in restored.pools()] == [service.pool]
    assert restored.picture(service.pool, 0).exists()
    restored.close()


# -- pictures --------------------------------------------------------------------------------------------------


class Tiny:
    """An image encoder that is there in no time; it says how it wants its images, or keeps that to itself."""

    kind, dim = "image", 12

    def __init__(self, given: ImageInput, tells: bool) -> None:
        self.name, self.fingerprint = "tiny", f"tiny-{tells}@0123456789ab"
        self.preprocessing: dict[str, Any] = given.to_json() if tells else {}
        self._given = given

    def prepare(self, item: Any) -> Any:
        return self._given.pixels(item)

    def encode(self, batch: Sequence[Any]) -> Any:
        return np.stack([np.asarray(x, dtype=np.float32).ravel()[: self.dim] for x in batch])


def photo(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def glutton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a megabyte that takes two gigabytes to decode."""
    file = tmp_path_factory.mktemp("glutton") / "glutton.tiff"
    Image.fromarray(np.zeros((9000, 9000), np.float32)).save(file, compression="tiff_adobe_deflate")
    return file


def test_a_picture_that_needs_too_much_memory_is_one_sample_without_a_picture(
    service: Service, glutton: Path, tmp_path: Path
) -> None:
    w, good = service.workspace, photo(tmp_path / "good.png", 1).read_bytes()
    pictures = [good, glutton.read_bytes(), good]
    pool = w.add_pool("p", Pool(service.world.pool[:3]), service.agent, OPERATOR, pictures=pictures).id
    with worker(w):
        until(lambda: w.pool(pool).state == "ready")
    assert w.skipped(pool) == [{"source": "row 1", "reason": "needs more than 1 GiB to decode"}]
    assert [job_of(w, pool).attempt, job_of(w, pool).crashes] == [1, 0]
    for row in (0, 2):
        assert w.picture(pool, row).exists()


@pytest.mark.parametrize("tells", [True, False])
def test_images_are_encoded_as_they_are_and_one_that_needs_too_much_is_left_out(
    workspace: Workspace,
    world: World,
    glutton: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tells: bool,
) -> None:
    encoder = Tiny(ImageInput(resize=24, crop=16), tells)
    name = encoder.fingerprint.partition("@")[0]
    monkeypatch.setitem(encoders._members, name, lambda *_: encoder)
    monkeypatch.setattr(base, "BUILT_IN", base.BUILT_IN | {name})
    agent = Agent.fit(world.X[:, :12], world.y, encoder=encoder.fingerprint, **SMALL)
    data = tmp_path / "data" / "photos"
    files = [photo(data / f"{n}.png", n) for n in range(4)]
    (data / "2.tiff").symlink_to(data / "real.bin")
    shutil.copyfile(glutton, data / "real.bin")
    before = set(children())  # of the tests around this one
    pool = workspace.add_pool("photos", data, workspace.add_agent("a", agent, OPERATOR).id, OPERATOR).id
    work_until_idle(workspace)
    record = workspace.pool(pool)
    assert (record.state, record.size, record.skipped) == ("ready", 4, 1), record.error
    assert workspace.skipped(pool) == [{"source": "2.tiff", "reason": "needs more than 1 GiB to decode"}]
    expected = encoder.encode([encoder.prepare(open_image(file, 24)) for file in files])
    assert np.array_equal(np.asarray(pools.open_pool(workspace.home, pool).data), expected.astype(np.float16))
    assert set(children()) <= before, "no decoder is left"


def test_a_picture_that_takes_too_long_is_refused_and_the_next_is_not(glutton: Path, tmp_path: Path) -> None:
    with Decoders(limits=DecodeLimits(seconds=0.2)) as decoders:
        for _ in range(2):
            with pytest.raises(BadImage, match=r"takes more than 0\.2 seconds"):
                decoders.webps(glutton)
        assert decoders.webps(photo(tmp_path / "a.png", 1))
        decoders.check()


def test_many_that_take_too_long_are_too_many(
    glutton: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_ENDED", 2)
    with Decoders(limits=DecodeLimits(seconds=0.2)) as decoders:
        for _ in range(2):
            with pytest.raises(BadImage, match="takes more than"):
                decoders.webps(glutton)
        with pytest.raises(BadImage, match="not decoded"):
            decoders.webps(photo(tmp_path / "a.png", 1))
        with pytest.raises(BadFile, match="2 pictures took longer"):
            decoders.check()


def test_a_picture_is_not_blamed_for_who_kills_its_decoder(tmp_path: Path) -> None:
    good, before = photo(tmp_path / "a.png", 1), set(children())
    with Decoders() as decoders:
        expected = decoders.webps(good)
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            (decoder,) = set(children()) - before
            os.kill(decoder, number)
            assert decoders.webps(good) == expected
        decoders.check()
    assert set(children()) == before


def test_a_decoder_knows_nothing_that_it_does_not_need(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUAL_DATABASE", "postgresql://cual:secret@localhost/cual")
    before = set(children())
    with Decoders() as decoders:
        decoders.webps(photo(tmp_path / "a.png", 1))
        (decoder,) = set(children()) - before
        assert "secret" not in Path(f"/proc/{decoder}/environ").read_text()
        assert "libtorch" not in Path(f"/proc/{decoder}/maps").read_text(), "it begins in no time"
        opened = [os.readlink(fd) for fd in Path(f"/proc/{decoder}/fd").iterdir()]
        assert not [name for name in opened if "sqlite" in name or "socket" in name]


def test_a_decoder_ends_with_who_began_it(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from cual.serve.jobs.decoding import Decoders\n"
        "Decoders().webps(Path(sys.argv[1]))\n"
        "print('there', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(photo(tmp_path / "a.png", 1))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (decoder,) = children(parent.pid)
        assert jobs.started(decoder)
        parent.kill()
    until(lambda: not jobs.started(decoder))


# -- what readers see ------------------------------------------------------------------------------------------


def test_errors_say_nothing_of_where_things_lie(service: Service, tmp_path: Path) -> None:
    w = service.workspace
    (tmp_path / "data" / "no pictures here").mkdir()
    (tmp_path / "data" / "no pictures here" / "readme.txt").touch()
    pool = w.add_pool("empty", tmp_path / "data" / "no pictures here", service.agent, OPERATOR).id
    service.work()
    assert (w.pool(pool).error or "").startswith("no pictures here holds no images")
    broken = w.add_pool("gone", Pool(service.world.pool), service.agent, OPERATOR).id
    (w.home.pool_folder(broken) / "features.safetensors").unlink()
    service.work()
    said = " ".join(str(job.error) for job in w.jobs())
    assert "features" in said
    for secret in (str(tmp_path), str(w.folder), "/home", "/tmp", "/dev"):
        assert secret not in said
