"""The example that `make serve-demo` opens: made once, gone on with ever after, completed if left half made."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from cual.serve.jobs.worker import Worker
from cual.serve.operations import demo
from running import running


@pytest.mark.attacks
def test_the_example_is_made_once_and_served(tmp_path: Path) -> None:
    folder = tmp_path / "example"
    demo.main([str(folder)])
    again = subprocess.run([sys.executable, "-m", "cual.serve.demo", str(folder)], capture_output=True)
    assert (again.returncode, again.stderr) == (0, b"")
    with running(folder) as service:
        demo.main([str(folder)])
        own = {"Origin": service.url}
        with httpx.Client(base_url=service.url, headers=own, follow_redirects=True) as browser:
            browser.post(
                "/api/sign-in", json={"token": service.address.partition("token=")[2]}
            ).raise_for_status()
            assert "New digits" in browser.get("/").text
            (record,) = browser.get("/api/adaptations").json()
            assert (record["state"] in ("thinking", "asking"), record["budget"]) == (True, demo.BUDGET)


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
    with pytest.raises(SystemExit, match=r"error: .* holds other things"):
        demo.main([str(tmp_path)])
