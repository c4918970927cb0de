"""Agents that release 0.1.0 wrote, which have no record of what they learned, are taught and repaired, too."""

import logging
from pathlib import Path

import numpy as np
import pytest

from cual import Agent
from cual.errors import SamplesMissing
from cual.heads import TakesBack
from worlds import file_bytes

FOLDER = Path(__file__).parents[1] / "upgrades" / "release-0.1.0" / "agents"
AGENTS = sorted(FOLDER.glob("*-v1.agent"))


@pytest.mark.parametrize("file", AGENTS, ids=lambda file: file.stem)
def test_an_agent_of_the_release_is_taught_and_repaired(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent.load(file)
    assert not agent.learned.complete
    assert len(agent.learned) == 0
    known = agent.classes_.tolist()
    new = max(known) + 1 if isinstance(known[0], int) else "hen"
    x = np.random.default_rng(0).normal(0, 3, (6, agent.width)).astype(np.float32)
    taught = agent.teach(x, [new] * 6)
    assert taught.classes_.tolist() == [*known, new]
    assert np.isfinite(taught.novelty(x)).all()
    assert taught.forget(x).classes_.tolist() == known
    merged = taught.merge_classes(known[0], known[1])
    assert known[1] not in merged.classes_.tolist()
    assert (
        merged.rename_class(known[0], new + 1 if isinstance(new, int) else "pet").version == agent.version + 3
    )
    with caplog.at_level(logging.ERROR):
        gone = merged.remove_class(known[0], exact=False)
    assert len(gone.classes_) == len(known) - 1
    if isinstance(agent.head, TakesBack):
        with pytest.raises(SamplesMissing, match="at your word"):
            agent.forget(x)
    else:  # whatever it was, what is trained again from the memory has not seen it
        assert agent.forget(x).history[-1]["how"] == "trained again"
    again = Agent.load(_saved(gone, tmp_path))
    assert file_bytes(again, tmp_path) == file_bytes(gone, tmp_path)


def _saved(agent: Agent, folder: Path) -> Path:
    agent.save(folder / "saved")
    return folder / "saved"
