"""Folders of links: names that people and files bring never lead anywhere else, and none is lost."""

import os
from pathlib import Path

import pytest

from cual.errors import BadOption
from cual.export import Labels
from cual.export.links import FILE, LONGEST, safe_name, under, write_links
from export.test_formats import row

HOSTILE = [
    "..",
    ".",
    "",
    "/",
    "../..",
    "/etc/passwd",
    "a/../../b",
    "x\x00y",
    "con",
    "NUL.txt",
    "a\\b",
    "…" * 200,
]
HOSTILE += [" lead", "trail. ", ".hidden", "~", "$(id)", "a\u202egpj.exe", "-rf", "C:\\x", "x" * 300 + ".jpeg"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Files of samples, one of them below a folder, and a secret beside them."""
    folder = tmp_path / "photos"
    (folder / "a").mkdir(parents=True)
    for name in ("1.jpg", "2.jpg", "a/1.jpg", "a_1.jpg"):
        (folder / name).write_text(name)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "out.jpg").symlink_to(tmp_path / "secret.txt")
    return folder


def links_in(folder: Path) -> dict[str, str]:
    """What each link leads to, by its path below the folder."""
    return {
        link.relative_to(folder).as_posix(): os.readlink(link)
        for link in sorted(folder.rglob("*"))
        if link.is_symlink()
    }


def test_a_folder_per_class(tmp_path: Path, photos: Path) -> None:
    rows = [row("1.jpg", "cat"), row("2.jpg", "dog"), row("a/1.jpg", "cat"), row("a_1.jpg", "cat")]
    rows += [row("2.jpg", "cat", counts=False), row("1.jpg", None, counts=False)]
    written = write_links(Labels(iter(rows)), tmp_path / "sorted", under(photos))
    assert (written.links, written.without_file) == (4, 0)
    assert links_in(tmp_path / "sorted") == {
        "cat/1.jpg": str(photos / "1.jpg"),
        "cat/a_1.jpg": str(photos / "a/1.jpg"),
        "cat/a_1 2.jpg": str(photos / "a_1.jpg"),
        "dog/2.jpg": str(photos / "2.jpg"),
    }
    lines = (tmp_path / "sorted" / FILE).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(rows)
    assert [line.split(",")[0] for line in lines[1:]] == [
        "cat/1.jpg",
        "dog/2.jpg",
        "cat/a_1.jpg",
        "cat/a_1 2.jpg",
        "",
        "",
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_class_or_sample_leads_out(tmp_path: Path, photos: Path, name: str) -> None:
    target, around = tmp_path / "deep" / "sorted", {*tmp_path.rglob("*")}
    rows = [row(name, name), row("1.jpg", "cat")]
    written = write_links(Labels(iter(rows)), target, lambda row: photos / "1.jpg")
    assert written.links == 2
    new = {*tmp_path.rglob("*")} - around - {target.parent}
    assert all(path == target or path.is_relative_to(target) for path in new)
    assert all(len(link.split("/")) == 2 for link in links_in(target)), "each in the folder of its class"
    assert len(safe_name(name).encode()) <= LONGEST + 1


@pytest.mark.parametrize(
    "sample", ["../secret.txt", "/etc/passwd", "out.jpg", "a", "", "..", "x\x00y", "no.jpg", 3]
)
def test_no_link_leads_to_what_lies_elsewhere(tmp_path: Path, photos: Path, sample: object) -> None:
    rows = [row(sample, "cat"), row("1.jpg", "cat")]
    written = write_links(Labels(iter(rows)), tmp_path / "sorted", under(photos))
    assert (written.links, written.without_file) == (1, 1)
    assert links_in(tmp_path / "sorted") == {"cat/1.jpg": str(photos / "1.jpg")}


def test_classes_whose_names_are_nearly_one(tmp_path: Path, photos: Path) -> None:
    names = ["Cat", "cat", "a/b", "a_b", FILE, "LABELS.csv", "ﬁsh", "fish"]
    rows = [row("1.jpg", name) for name in names]
    write_links(Labels(iter(rows)), tmp_path / "sorted", under(photos))
    folders = [path.name for path in (tmp_path / "sorted").iterdir() if path.is_dir()]
    assert len({name.casefold() for name in folders} | {FILE}) == len(names) + 1


def test_a_sample_with_two_labels_of_one_class_is_linked_once(tmp_path: Path, photos: Path) -> None:
    rows = [
        row("1.jpg", "cat", adaptation=1),
        row("1.jpg", "cat", adaptation=2),
        row("1.jpg", "dog", adaptation=3),
    ]
    write_links(Labels(iter(rows)), tmp_path / "sorted", under(photos))
    assert list(links_in(tmp_path / "sorted")) == ["cat/1.jpg", "dog/1.jpg"]


def test_what_is_there_is_not_touched(tmp_path: Path, photos: Path) -> None:
    labels = Labels([row("1.jpg")])
    for taken in (photos, photos / "1.jpg"):
        with pytest.raises(BadOption, match=r"not empty|no folder"):
            write_links(labels, taken, under(photos))
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    with pytest.raises(BadOption, match="no folder"):
        write_links(labels, tmp_path / "link", under(photos))
    assert write_links(labels, tmp_path / "empty", under(photos)).links == 1


def test_where_no_sample_has_a_file_nothing_is_made(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(BadOption, match="none of the 2 samples"):
        write_links(Labels([row("x.jpg"), row("y.jpg")]), tmp_path / "sorted", under(photos))
    assert sorted(os.listdir(tmp_path)) == ["photos", "secret.txt"]
