"""The example that `make serve-demo` opens: made once, gone on with ever after, completed if it was left half made."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from cual.serve import demo
from cual.serve.worker import Worker, work_until_idle
from running import running


def make(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cual.serve.demo", str(folder)], capture_output=True, text=True
    )


def test_the_example_is_made_once_and_served(tmp_path: Path) -> None:
    folder = tmp_path / "example"
    assert make(folder).returncode == 0
    workspace = demo.make_demo(folder)
    work_until_idle(workspace)
    (record,) = workspace.adaptations()
    assert (record.state, record.budget) == ("asking", demo.BUDGET)
    workspace.close()
    assert (again := make(folder)).returncode == 0, again.stderr
    with running(folder) as service:
        assert make(folder).returncode == 0  # while it is served as well
        with httpx.Client(base_url=service.url, follow_redirects=True) as browser:
            assert "New digits" in browser.get(service.address).text
            assert browser.get("/api/adaptations").json()[0]["id"] == record.id


def test_a_half_made_example_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(Exception):
        pass

    def cut(_: Worker) -> None:
        raise Cut

    with monkeypatch.context() as during:
        during.setattr(Worker, "run_until_idle", cut)
        with pytest.raises(Cut):
            demo.make_demo(tmp_path)
    workspace = demo.make_demo(tmp_path)
    assert len(workspace.agents()) == len(workspace.pools()) == len(workspace.adaptations()) == 1
    workspace.close()


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    refused = make(tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
