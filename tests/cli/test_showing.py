"""Questions in the terminal show what they ask about: the text, the image and its path; o opens it."""

import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import cual as package
from commands import cual, done, refused
from cual.cli.contents import Contents, printable
from cual.cli.options import Named
from cual.data.folder import FeaturesWriter
from worlds import World

pytestmark = pytest.mark.more


def adapt(desk: Any, *more: object) -> tuple[object, ...]:
    named = ("--text", "message", "--id", "key") if desk.pool.suffix else ()
    given = ("adapt", desk.agent, desk.pool, "-o", desk.next, "--budget", 6, *named)
    return (*given, "--encoder", desk.encoder, *more)


def test_the_text_itself_is_shown(texts: Any) -> None:
    said = cual(*adapt(texts), input="o\nq\n")
    assert said.exit_code == 0
    sample = re.search(r"^(\w\d\d)  score", said.stdout, flags=re.MULTILINE)
    assert sample is not None
    text = next(
        line.split(",")[1] for line in texts.pool.read_text().splitlines() if line.startswith(sample[1])
    )
    assert said.stdout.count(text) == 2  # shown, and shown again by o


def test_where_an_image_lies_is_shown_and_o_opens_it(pictures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program, opened = pictures.folder / "bin" / "xdg-open", pictures.folder / "opened"
    os.mkfifo(opened)  # so that whoever reads it waits for the program
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sys, "platform", "linux")
    said = cual(*adapt(pictures), input="o\nq\n").stdout
    path = next(line.strip() for line in said.splitlines() if str(pictures.pool) in line)
    assert Path(path).is_file()
    with opened.open() as pipe:
        assert pipe.read() == path


def test_without_a_program_that_opens_it_the_path_is_said(
    pictures: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(pictures.folder))
    monkeypatch.setattr(sys, "platform", "linux")
    assert "there is no xdg-open here; it lies at" in cual(*adapt(pictures), input="o\nq\n").stdout


def test_features_are_shown_by_what_they_were_made_of(pictures: Any) -> None:
    features = pictures.folder / "pool.npz"
    done("embed", pictures.pool, "-o", features, "--encoder", pictures.encoder)
    given = ("adapt", pictures.agent, features, "-o", pictures.next, "--budget", 6)
    bare = cual(*given, input="o\nq\n").stdout
    assert str(pictures.pool) not in bare
    assert "only its id is known; --show says where" in bare
    assert str(pictures.pool) in cual(*given, "--show", pictures.pool, input="q\n").stdout
    assert "--images is one of" in refused(*given, "--images", "ascii")


def test_contents_of_a_features_folder_are_the_images_that_are_still_there(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.new("RGB", (4, 4), "red").save(file)
    with FeaturesWriter(tmp_path / "f", width=2) as writer:
        writer.append(np.eye(2), ids=["a", "b"], sources=[str(file), str(tmp_path / "gone.png")])
    contents = Contents(tmp_path / "f")
    assert contents.file("a") == file
    assert contents.of("b") is None
    found = contents.of("a")
    assert found is not None
    assert found.image is not None
    assert found.image(10).getpixel((0, 0)) == (255, 0, 0)


def test_texts_cannot_play_tricks_on_the_terminal(tmp_path: Path) -> None:
    assert printable("a\x1b]0;title\x07\u202eb") == "a�]0;title��b"
    (tmp_path / "t.csv").write_text("id,text\nx,\x1b[2Jhidden\n", encoding="utf-8")
    content = Contents(tmp_path / "t.csv", Named()).of("x")
    assert content is not None
    assert content.text is not None
    assert "\x1b" not in printable(content.text())


def test_a_typed_name_that_is_nearly_known_is_asked_about(pictures: Any) -> None:
    said = cual(*adapt(pictures), input="forest\n\nq\n").stdout
    assert "did you mean Forest? Enter takes it, n makes the new class forest" in said
    assert "new class forest (z" not in said
    told = cual(*adapt(pictures), input="=forest\nSeas\nn\nFores\nno\nForest\nq\n").stdout
    assert "new class forest (z to go back)" in told
    assert "new class Seas (z to go back)" in told
    assert re.findall(r"did you mean (\w+)\?", told) == ["Sea", "Forest"]


def test_features_need_no_packages_for_images(world: World, tmp_path: Path) -> None:
    """With nothing but what cual itself needs, questions have ids."""
    world.agent().save(tmp_path / "v0.agent")
    np.savez(tmp_path / "pool.npz", X=world.pool, ids=np.array(world.ids))
    block = (
        "import sys",
        "class Missing:",
        "    def find_spec(self, name, path=None, target=None):",
        "        if name.partition('.')[0] in ('PIL', 'pyarrow', 'transformers', 'onnx', 'pandas'):",
        "            raise ModuleNotFoundError(f'{name} is not installed here')",
        "sys.meta_path.insert(0, Missing())",
        "from cual.cli import app; app()",
    )
    command = [sys.executable, "-c", "\n".join(block), "adapt", "v0.agent", "pool.npz", "-o", "v1.agent"]
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    process = subprocess.run(
        [*command, "--budget", "4"],
        cwd=tmp_path,
        env=environment,
        input="o\nq\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "only its id is known" in process.stdout


@pytest.mark.parametrize(
    ("variables", "mark"), [({"TERM": "xterm-kitty"}, b"\x1b_Ga=T,f=100"), ({"TERM": "xterm"}, "▀".encode())]
)
def test_a_real_terminal_shows_the_image(pictures: Any, variables: dict[str, str], mark: bytes) -> None:
    ours, theirs = pty.openpty()
    dropped = ("TMUX", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL", "NO_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"PYTHONPATH": str(Path(package.__file__).parents[1]), "COLORTERM": "truecolor", **variables}
    command = [sys.executable, "-c", "from cual.cli import app; app()", *map(str, adapt(pictures))]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen, typed = b"", False
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
        if not typed and re.search(rb"class( \[.*?\])?: ", seen):
            os.write(ours, b"q\n")
            typed = True
    assert process.wait() == 0, seen.decode(errors="replace")
    assert mark in seen
    os.close(ours)
