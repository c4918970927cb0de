"""Pools: from memory, from images, text and features on disk; pictures made anew; nothing from elsewhere."""

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cual import Agent, Pool
from cual.data.files import write
from cual.data.folder import FeaturesWriter, Made
from cual.data.table import Table
from cual.encoders import base, encoders
from cual.encoders.base import Setup
from cual.errors import BadFeatures, BadFile, BadOption, NotAllowed, NotFound
from cual.serve.jobs import encoding, preparing
from cual.serve.jobs import pictures as pictures_job
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules import pools
from cual.serve.rules.records import OPERATOR, PoolRecord
from cual.serve.rules.sources import TableColumns
from cual.serve.rules.workspace import Workspace
from serving import make_service
from worlds import SMALL, World

FINGERPRINTS = {"image": "tiny-image@0123456789ab", "text": "tiny-text@0123456789ab"}


class TinyEncoder:
    """Six numbers of an image or a text, in no time."""

    dim = 6

    def __init__(self, kind: str) -> None:
        self.kind, self.name, self.fingerprint = kind, f"tiny-{kind}", FINGERPRINTS[kind]
        self.preprocessing: dict[str, Any] = {}

    def prepare(self, item: Any) -> Any:
        return np.asarray(item.resize((2, 1))) if self.kind == "image" else item

    def encode(self, batch: Sequence[Any]) -> Any:
        if self.kind == "image":
            return np.stack([np.asarray(x, dtype=np.float32).ravel() / 255 for x in batch])
        return np.array([[len(t), *(t.count(c) for c in "aeiou")] for t in batch], dtype=np.float32)


def _tiny_image(name: str, setup: Setup) -> TinyEncoder:
    return TinyEncoder("image")


def _tiny_text(name: str, setup: Setup) -> TinyEncoder:
    return TinyEncoder("text")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders that need no weights, for as long as the test runs."""
    for name, factory in (("tiny-image", _tiny_image), ("tiny-text", _tiny_text)):
        monkeypatch.setitem(encoders._members, name, factory)
    monkeypatch.setattr(base, "BUILT_IN", base.BUILT_IN | {"tiny-image", "tiny-text"})


def agent_of(workspace: Workspace, kind: str = "image") -> int:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.1, (20, 6)) for c in (0, 1)])
    agent = Agent.fit(X, ["dark"] * 20 + ["light"] * 20, encoder=FINGERPRINTS[kind], **SMALL)
    return workspace.add_agent("shades", agent, OPERATOR).id


def prepared(workspace: Workspace, *arguments: Any, **more: Any) -> PoolRecord:
    record = workspace.add_pool(*arguments, OPERATOR, **more)
    assert record.state == "preparing"
    work_until_idle(workspace)
    return workspace.pool(record.id)


def image(path: Path, size: tuple[int, int] = (40, 30), colour: Any = "red", **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, **more)


# -- from memory -----------------------------------------------------------------------------------------------


def test_pictures_of_an_array_are_kept_to_the_pixel(workspace: Workspace, world: World) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (70, 8, 8), dtype=np.uint8)
    agent = workspace.add_agent("animals", world.agent(), OPERATOR)
    record = prepared(workspace, "digits", Pool(world.pool, world.ids), agent.id, pictures=pixels)
    assert (record.state, record.kind, record.size, record.skipped) == ("ready", "pictures", 70, 0)
    with Image.open(workspace.picture(record.id, 7)) as shown:
        assert shown.format == "WEBP"
        assert np.array_equal(np.asarray(shown)[..., 0], pixels[7])
    assert not (workspace.home.pool_folder(record.id) / "source").exists()


def test_pictures_come_as_files_or_images_too(workspace: Workspace, world: World) -> None:
    agent = workspace.add_agent("animals", world.agent(), OPERATOR)
    held = io.BytesIO()
    Image.new("RGB", (5, 5), "blue").save(held, "JPEG")
    pictures = [held.getvalue(), Image.new("L", (900, 100)), b"no picture at all"]
    record = prepared(workspace, "three", Pool(world.pool[:3]), agent.id, pictures=pictures)
    assert (record.state, record.size, record.skipped) == ("ready", 3, 1)
    assert workspace.skipped(record.id)[0]["source"] == "row 2"
    with Image.open(workspace.picture(record.id, 1)) as shown:
        assert max(shown.size) == 512
    with pytest.raises(NotFound):
        workspace.picture(record.id, 2)


def test_all_of_a_pool_is_on_the_disk_before_it_is_ready(
    workspace: Workspace, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()

    def noted(handle: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{handle}"))

    agent = workspace.add_agent("animals", world.agent(), OPERATOR).id
    pictures = np.zeros((len(world.ids), 4, 4), np.uint8)
    pool = workspace.add_pool("p", Pool(world.pool, world.ids), agent, OPERATOR, pictures=pictures).id
    monkeypatch.setattr(preparing.os, "fsync", noted)
    work_until_idle(workspace)
    folder = workspace.home.pool_folder(pool)
    assert {str(path) for path in (folder, *folder.rglob("*"))} <= synced
    assert len(list((folder / "pictures").iterdir())) == len(world.ids)


def test_texts_come_back_as_they_are(workspace: Workspace, world: World) -> None:
    agent = workspace.add_agent("animals", world.agent(), OPERATOR)
    texts = [f"text {i}\nΩ \x00 \U0001f98a" for i in range(70)]
    record = prepared(workspace, "said", Pool(world.pool, world.ids), agent.id, texts=texts)
    assert (record.state, record.kind) == ("ready", "text")
    assert [workspace.text(record.id, row) for row in range(70)] == texts
    for row in (-1, 70):
        with pytest.raises(NotFound):
            workspace.text(record.id, row)


def test_what_does_not_fit_is_refused_at_once(workspace: Workspace, world: World) -> None:
    agent = workspace.add_agent("animals", world.agent(), OPERATOR).id
    pool = Pool(world.pool, world.ids)
    with pytest.raises(BadOption, match="70 samples came with 3 texts"):
        workspace.add_pool("x", pool, agent, OPERATOR, texts=["a", "b", "c"])
    with pytest.raises(BadOption, match="pictures are"):
        workspace.add_pool("x", pool, agent, OPERATOR, pictures=np.zeros((70, 8, 8)))
    with pytest.raises(BadFeatures, match="8 wide"):
        workspace.add_pool("x", Pool(np.zeros((3, 8))), agent, OPERATOR)
    assert not workspace.pools()
    assert not workspace.jobs()


# -- from disk -------------------------------------------------------------------------------------------------


def test_a_folder_of_images(workspace: Workspace, tmp_path: Path) -> None:
    data, agent = tmp_path / "data" / "photos", agent_of(workspace)
    for i in range(6):
        image(data / "some" / f"{i}.png", colour=(40 * i, 0, 0))
    (data / "some" / "broken.jpg").write_bytes(b"\xff\xd8\xff no more")
    record = prepared(workspace, "photos", data, agent)
    assert (record.state, record.error) == ("ready", None)
    assert (record.kind, record.size, record.skipped) == ("pictures", 6, 1)
    assert [row["source"] for row in workspace.skipped(record.id)] == ["some/broken.jpg"]
    for row in range(6):
        with Image.open(workspace.picture(record.id, row)) as shown:
            assert shown.size == (40, 30)
            assert shown.convert("RGB").getpixel((3, 3)) == (40 * row, 0, 0)
    (data / "some" / "0.png").unlink()
    assert workspace.picture(record.id, 0).exists(), "what people look at does not depend on the source"


def test_pictures_are_small_and_say_nothing_but_pixels(workspace: Workspace, tmp_path: Path) -> None:
    data = tmp_path / "data" / "photos"
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    image(data / "a.jpg", (2000, 1000), exif=exif)
    image(data / "b.png", (20, 10))
    record = prepared(workspace, "photos", data, agent_of(workspace))
    file = workspace.picture(record.id, 0)
    with Image.open(file) as shown:
        assert shown.size == (512, 256)
        assert not shown.getexif()
    large = workspace.picture(record.id, 0, large=True)
    with Image.open(large) as shown:
        assert shown.size == (1600, 800)
        assert not shown.getexif()
    assert b"where I live" not in file.read_bytes() + large.read_bytes()
    assert workspace.picture(record.id, 1, large=True) == workspace.picture(record.id, 1), "it is all there is"


def test_a_huge_pool_has_only_small_pictures(
    workspace: Workspace, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = workspace.add_agent("animals", world.agent(), OPERATOR)
    monkeypatch.setattr(pictures_job, "MOST_LARGE", 2)
    photos = [Image.new("L", (900, 100))] * 3
    for n, large in ((2, 900), (3, 512)):
        record = prepared(workspace, f"{n}", Pool(world.pool[:n]), agent.id, pictures=photos[:n])
        with Image.open(workspace.picture(record.id, 1, large=True)) as shown:
            assert shown.size[0] == large


def test_a_table_of_text(workspace: Workspace, tmp_path: Path) -> None:
    table = tmp_path / "data" / "said.csv"
    table.write_text('id,text\nx1,aeiou\nx2,"two, lines"\nx3,ooo\n')
    record = prepared(workspace, "said", table, agent_of(workspace, "text"))
    assert (record.state, record.kind, record.size) == ("ready", "text", 3)
    assert [workspace.text(record.id, row) for row in range(3)] == ["aeiou", "two, lines", "ooo"]


def test_features_of_a_file(workspace: Workspace, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float16)
    write(tmp_path / "data" / "x.npz", Table(X, ids=np.array([f"s{i}" for i in range(9)])))
    record = prepared(workspace, "x", tmp_path / "data" / "x.npz", agent_of(workspace))
    assert (record.state, record.kind, record.size) == ("ready", "features", 9)
    with pytest.raises(NotFound):
        workspace.picture(record.id, 0)


def test_a_features_folder_and_the_pictures_it_was_made_of(workspace: Workspace, tmp_path: Path) -> None:
    data = tmp_path / "data"
    outside = tmp_path / "secret.png"
    image(data / "photos" / "a.png", colour="blue")
    image(outside)
    sources = [str(data / "photos" / "a.png"), str(outside), None]
    with FeaturesWriter(data / "folder", 6, made=Made(FINGERPRINTS["image"])) as writer:
        writer.append(np.eye(3, 6), ["a", "b", "c"], sources=sources)
    record = prepared(workspace, "folder", data / "folder", agent_of(workspace))
    assert (record.state, record.kind, record.size) == ("ready", "pictures", 3)
    assert workspace.picture(record.id, 0).exists()
    for row in (1, 2):
        with pytest.raises(NotFound):
            workspace.picture(record.id, row)


def test_features_of_another_encoder_fail(workspace: Workspace, tmp_path: Path) -> None:
    with FeaturesWriter(tmp_path / "data" / "folder", 6, made=Made("other@0123456789ab")) as writer:
        writer.append(np.eye(3, 6), ["a", "b", "c"])
    record = prepared(workspace, "x", tmp_path / "data" / "folder", agent_of(workspace))
    assert record.state == "failed"
    assert "other@0123456789ab" in (record.error or "")


def test_an_adaptation_works_on_a_features_folder_that_moved(
    workspace: Workspace, world: World, tmp_path: Path
) -> None:
    service = make_service(workspace, world)
    with FeaturesWriter(tmp_path / "data" / "folder", 16, "float32") as writer:
        writer.append(world.pool, world.ids)
    service.pool = prepared(workspace, "folder", tmp_path / "data" / "folder", service.agent).id
    adaptation = service.start()
    service.answer_round(adaptation)
    service.work()
    assert workspace.adaptation(adaptation).round == 1
    folder = workspace.home.adaptation_folder(adaptation)
    assert len(list(folder.iterdir())) == 1, "only what is committed is kept"
    workspace.close()
    workspace.folder.rename(tmp_path / "moved")
    url = None if workspace.database.is_sqlite else workspace.database.url.render_as_string(hide_password=False)
    service.workspace = Workspace.open(tmp_path / "moved", url)
    service.answer_all(adaptation)
    assert service.finish(adaptation).state == "finished"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npz", b"PK\x03\x04 cut off"),
        ("x.npz", b"not even that"),
        ("x.exe", b"MZ"),
        ("empty/readme.md", b"no images here"),
    ],
)
def test_what_cannot_be_used_fails_with_a_reason(
    workspace: Workspace, tmp_path: Path, name: str, content: bytes
) -> None:
    file = tmp_path / "data" / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    source = file.parent if "/" in name else file
    record = prepared(workspace, "x", source, agent_of(workspace))
    assert record.state == "failed"
    assert record.error
    assert workspace.jobs()[0].failures == 1, "what is wrong with a file is not tried again and again"


@pytest.mark.parametrize(
    ("content", "columns", "why"),
    [
        (b"id,nothing\n1,2\n", None, "x.csv has no column of text .*; it has id, nothing"),
        (b"id,text\n1,2\n", TableColumns(text="words"), "has no column 'words'; it has id, text"),
        (b"\xff\xfe\x00", None, "not a whole table"),
        (b"", None, "has no rows"),
    ],
)
def test_a_table_without_its_columns_is_refused_at_once(
    workspace: Workspace, tmp_path: Path, content: bytes, columns: TableColumns | None, why: str
) -> None:
    file = tmp_path / "data" / "x.csv"
    file.write_bytes(content)
    with pytest.raises(BadFile, match=why) as refused:
        workspace.add_pool("x", file, agent_of(workspace, "text"), OPERATOR, columns=columns)
    assert str(tmp_path) not in str(refused.value)
    assert not workspace.pools()


def test_columns_of_a_table_are_named(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "data" / "x.csv").write_text("number,said\nx1,aeiou\nx2,oo\n")
    columns = TableColumns(text="said", id="number")
    record = prepared(workspace, "x", tmp_path / "data" / "x.csv", agent_of(workspace, "text"), columns=columns)
    assert (record.state, record.size, workspace.text(record.id, 1)) == ("ready", 2, "oo")
    assert pools.open_pool(workspace.home, record.id).ids.tolist() == ["x1", "x2"]


def test_an_archive_that_unpacks_to_too_much(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "MOST_BYTES", 10_000)
    with zipfile.ZipFile(tmp_path / "data" / "x.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("X.npy", b"\0" * 100_000)
    record = prepared(workspace, "x", tmp_path / "data" / "x.npz", agent_of(workspace))
    assert record.state == "failed"
    assert "unpacks to 100,000 bytes" in (record.error or "")


def test_an_encoder_that_names_code_is_not_run(workspace: Workspace, world: World, tmp_path: Path) -> None:
    agent = workspace.add_agent("odd", world.agent(encoder="python:os:system@0123456789ab"), OPERATOR)
    image(tmp_path / "data" / "photos" / "a.png")
    record = prepared(workspace, "x", tmp_path / "data" / "photos", agent.id)
    assert record.state == "failed"
    assert "not one that the service runs" in (record.error or "")


# -- where from ------------------------------------------------------------------------------------------------


def test_only_what_lies_under_a_root_is_read(workspace: Workspace, tmp_path: Path) -> None:
    agent = agent_of(workspace)
    image(tmp_path / "secret" / "a.png")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "database").mkdir()
    for path in (
        tmp_path / "secret",
        tmp_path / "data" / ".." / "secret",
        tmp_path / "data" / "link",
        tmp_path / "database",
        tmp_path / "data" / "nothing here",
        Path("/etc/passwd"),
        Path("data/x\0y"),
        workspace.folder,
        workspace.uploads,
        workspace.uploads / ".." / "agents",
    ):
        with pytest.raises(NotAllowed, match="does not lie under"):
            workspace.add_pool("x", path, agent, OPERATOR)
    assert not workspace.pools()


def test_links_out_of_a_folder_are_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    data = tmp_path / "data" / "photos"
    image(data / "a.png")
    image(tmp_path / "secret" / "b.png", colour="green")
    (data / "b.png").symlink_to(tmp_path / "secret" / "b.png")
    (data / "c").symlink_to(tmp_path / "secret")
    record = prepared(workspace, "x", data, agent_of(workspace))
    assert (record.state, record.size) == ("ready", 1)
    reasons = {(row["source"], row["reason"]) for row in workspace.skipped(record.id)}
    assert ("b.png", "leads out of the folder") in reasons


def test_a_link_put_in_place_later_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    data = tmp_path / "data" / "photos"
    image(data / "a.png")
    image(tmp_path / "secret" / "a.png")
    record = workspace.add_pool("x", data, agent_of(workspace), OPERATOR)
    data.rename(tmp_path / "away")
    data.symlink_to(tmp_path / "secret")
    work_until_idle(workspace)
    assert workspace.pool(record.id).state == "failed"


def test_uploads_are_taken_over(workspace: Workspace, tmp_path: Path) -> None:
    agent = agent_of(workspace)
    folder = workspace.uploads / "0123"
    image(folder / "a.png")
    image(folder / "b.png", colour="blue")
    record = workspace.add_pool("sent", folder, agent, OPERATOR)
    assert not folder.exists()
    workspace.empty_uploads()
    work_until_idle(workspace)
    assert (workspace.pool(record.id).state, workspace.pool(record.id).size) == ("ready", 2)
    assert not (workspace.home.pool_folder(record.id) / "source").exists()
    write(workspace.uploads / "x.npz", Table(np.eye(6)))
    record = prepared(workspace, "also sent", workspace.uploads / "x.npz", agent)
    assert (record.state, record.size) == ("ready", 6)


# -- the map ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (5, 2), (50, 6)])
def test_the_map_holds_the_two_widest_directions(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).normal(size=shape) * np.arange(1, shape[1] + 1)
    xy = preparing.projection(Pool(X))
    assert xy.shape == (shape[0], 2)
    assert np.isfinite(xy).all()
    assert np.abs(xy).max() <= 1
    if shape[0] > 2 and shape[1] > 1:
        centred = X.astype(np.float32) - X.astype(np.float32).mean(axis=0)
        expected = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
        for axis in range(2):
            correlation = np.corrcoef(expected[:, axis], xy[:, axis])[0, 1]
            assert abs(correlation) == pytest.approx(1, abs=1e-3)


def test_wrong_width_fails(workspace: Workspace, tmp_path: Path) -> None:
    write(tmp_path / "data" / "x.npz", Table(np.eye(4)))
    record = prepared(workspace, "x", tmp_path / "data" / "x.npz", agent_of(workspace))
    assert record.state == "failed"
    assert "4 wide" in (record.error or "")


def test_an_agent_of_other_weights_is_told_so(workspace: Workspace, world: World, tmp_path: Path) -> None:
    agent = workspace.add_agent("old", world.agent(encoder="tiny-image@ffffffffffff"), OPERATOR)
    image(tmp_path / "data" / "photos" / "a.png")
    record = prepared(workspace, "x", tmp_path / "data" / "photos", agent.id)
    assert record.state == "failed"
    assert "this machine has tiny-image@0123456789ab" in (record.error or "")
