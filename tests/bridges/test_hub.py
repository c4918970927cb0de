"""Agents on the hub: the real client of `huggingface_hub` against a hub on the loopback."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")

import huggingface_hub
from huggingface_hub import constants

from cual import Agent
from cual.bridges.hub import AGENT, CARD, MANIFEST, pull, push
from cual.bridges.hub.card import model_card
from cual.errors import BadOption, DamagedFile, ForeignFile, NewerFormat, NotAllowed, TooLarge, Unavailable
from hub_server import TOKEN, Hub, hub_server
from worlds import World, file_bytes

REPO = "ada/birds"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Hub]:
    with hub_server() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)  # what HF_ENDPOINT sets when it is imported
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", running.url + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield running


@pytest.fixture(scope="module")
def grown() -> Agent:
    """An agent that has been adapted once."""
    from worlds import make_world

    world = make_world()
    task = world.answer_all(world.adapt(world.agent(encoder="all-minilm-l6-v2@0123456789ab")))
    return task.finish()


def test_an_agent_goes_to_the_hub_and_comes_back_with_the_same_bits(
    hub: Hub, grown: Agent, tmp_path: Path
) -> None:
    commit = grown.push_to_hub(REPO, license="apache-2.0")
    repository = hub.repositories[REPO]
    assert repository.private
    assert repository.branches["main"] == commit
    assert set(repository.files("main")) == {AGENT, CARD, MANIFEST, ".gitattributes"}
    assert repository.messages[-1] == f"Version 1: {len(grown.names)} classes"
    there = repository.files("main")
    manifest = json.loads(there[MANIFEST])
    assert manifest["sha256"] == hashlib.sha256(there[AGENT]).hexdigest()
    assert manifest["bytes"] == len(there[AGENT])
    for back in (
        Agent.from_hub(REPO),
        Agent.from_hub(REPO, revision=commit, sha256=manifest["sha256"]),
    ):
        assert file_bytes(back, tmp_path) == there[AGENT]


def test_a_revision_stays_what_it_is(hub: Hub, world: World, grown: Agent) -> None:
    first = world.agent()
    before = first.push_to_hub(REPO)
    after = grown.push_to_hub(REPO, message="more birds")
    aside = first.push_to_hub(REPO, revision="trial")
    assert before != after
    assert hub.repositories[REPO].messages[1:] == ["Version 0: 2 classes", "more birds", "Version 0: 2 classes"]
    assert Agent.from_hub(REPO).version == 1
    assert Agent.from_hub(REPO, revision=before).version == 0
    assert Agent.from_hub(REPO, revision="trial").version == 0
    assert pull(REPO, revision="trial").commit == aside
    with pytest.raises(BadOption, match=r"ada/birds has no revision 'nowhere'"):
        Agent.from_hub(REPO, revision="nowhere")


def test_a_file_that_was_changed_is_refused(hub: Hub, world: World, grown: Agent) -> None:
    world.agent().push_to_hub(REPO)
    pushed = push(grown, REPO)
    with pytest.raises(DamagedFile, match=r"but you said 0{64}"):
        Agent.from_hub(REPO, sha256="0" * 64)
    with pytest.raises(BadOption, match="64 digits"):
        Agent.from_hub(REPO, sha256="abc")
    data = bytearray(hub.repositories[REPO].files("main")[AGENT])
    data[-1] ^= 1
    hub.put(REPO, {AGENT: bytes(data)})
    with pytest.raises(DamagedFile, match=rf"but cual\.json said {pushed.sha256}"):
        Agent.from_hub(REPO)
    assert Agent.from_hub(REPO, revision=pushed.commit).version == 1


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        (b"{", DamagedFile),
        (b"[" * 100_000, DamagedFile),
        (b'{"format": 1}', DamagedFile),
        (b'{"format": 2, "sha256": "x"}', NewerFormat),
        (b" " * (2**20 + 1), TooLarge),
    ],
)
def test_odd_repositories_are_named_errors(hub: Hub, manifest: bytes, error: type[Exception]) -> None:
    hub.put(REPO, {MANIFEST: manifest, AGENT: b"no agent"})
    with pytest.raises(error, match="ada/birds"):
        pull(REPO)


def test_what_is_no_agent_is_not_loaded(hub: Hub) -> None:
    hub.put(REPO, {CARD: b"# a model of somebody"})
    with pytest.raises(ForeignFile, match="holds no agent of cual"):
        Agent.from_hub(REPO)
    evil = b"cos\nsystem\n(S'touch ran'\ntR."  # a pickle that would run a command
    said = {"format": 1, "sha256": hashlib.sha256(evil).hexdigest()}
    hub.put(REPO, {MANIFEST: json.dumps(said).encode(), AGENT: evil})
    with pytest.raises(ForeignFile, match="was not written by cual"):
        Agent.from_hub(REPO)


def test_what_is_too_large_is_not_fetched(hub: Hub, grown: Agent) -> None:
    grown.push_to_hub(REPO)
    hub.asked.clear()
    with pytest.raises(TooLarge, match="more than the 1000 that are fetched"):
        pull(REPO, largest=1000)
    hub.sizes[AGENT] = 2**50
    with pytest.raises(TooLarge, match=f"{2**50} bytes"):
        Agent.from_hub(REPO)
    assert not [line for line in hub.asked if line.endswith(AGENT)]


def test_nothing_that_the_file_names_is_fetched(hub: Hub, world: World, tmp_path: Path) -> None:
    """An agent may name any encoder: pulling it asks the hub for its own repository alone."""
    agent = Agent.fit(world.X, world.y, encoder="hf:eve/model@0123456789ab")
    hub.put("eve/model", {"config.json": b"{}"})
    agent.push_to_hub(REPO)
    hub.asked.clear()
    assert Agent.from_hub(REPO).encoder == "hf:eve/model@0123456789ab"
    assert hub.asked
    assert not [line for line in hub.asked if "eve" in line]


def test_a_card_of_somebody_else_is_not_replaced(hub: Hub, grown: Agent) -> None:
    hub.put(REPO, {CARD: b"# years of work"})
    with pytest.raises(BadOption, match="holds something else"):
        grown.push_to_hub(REPO)
    assert hub.repositories[REPO].files("main")[CARD] == b"# years of work"
    grown.push_to_hub(REPO, force=True)
    grown.push_to_hub(REPO)  # it is ours now
    assert b"library_name" in hub.repositories[REPO].files("main")[CARD]


def test_who_has_no_token_is_told_so(hub: Hub, grown: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    grown.push_to_hub(REPO)
    monkeypatch.setenv("HF_TOKEN", "hf_of_eve")
    with pytest.raises(Unavailable, match="hf auth login"):
        Agent.from_hub(REPO)
    with pytest.raises((NotAllowed, Unavailable), match="hf auth login"):
        grown.push_to_hub("eve/birds")
    assert "eve/birds" not in hub.repositories


def test_names_that_are_none(hub: Hub, grown: Agent) -> None:
    with pytest.raises(BadOption, match="write owner/name"):
        Agent.from_hub("../etc/passwd")
    with pytest.raises(Unavailable, match="there is no model ada/nothing"):
        Agent.from_hub("ada/nothing")
    with pytest.raises(BadOption, match="license is 'my own: x'"):
        grown.push_to_hub(REPO, license="my own: x")
    assert not hub.repositories


def test_without_a_network_it_is_one_error(
    hub: Hub, grown: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    for act in (lambda: Agent.from_hub(REPO), lambda: grown.push_to_hub(REPO)):
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 cannot be reached"):
            act()


def test_the_card_says_what_the_agent_knows(grown: Agent) -> None:
    import yaml

    card = model_card(grown, REPO, "ab" * 32, "apache-2.0")
    _, head, body = card.split("---\n", 2)
    metadata = yaml.safe_load(head)
    assert metadata["library_name"] == "cual"
    assert metadata["license"] == "apache-2.0"
    assert metadata["pipeline_tag"] == "text-classification"
    assert "active-learning" in metadata["tags"]
    assert huggingface_hub.ModelCard(card).data.to_dict()["license"] == "apache-2.0"
    rows = dict(re.findall(r"^\| (\S[^|]*?) \| (\d+ \| \d+ \| \d+) \|$", body, flags=re.MULTILINE))
    learned = grown.learned
    for c, name in enumerate(grown.names.names):
        people = int(np.sum(learned.human[learned.classes == c]))
        believed = int(np.sum(~learned.human[learned.classes == c]))
        held_out = int((grown.verified_samples.y == c).sum())
        assert rows[str(name)] == f"{people} | {believed} | {held_out}"
    (row,) = grown.history
    assert f"{row['labels_used']} answers of people, {row['pseudo_labels']} pseudo-labels" in body
    assert f"above {float(grown.threshold.value):.4g}" in body
    assert re.search(
        r"Accuracy, the mean over classes: \d+ % \(\d+ to \d+\), by \d+ labels of \d+ classes", body
    )
    assert "`all-minilm-l6-v2@0123456789ab`" in body
    assert '"rounds": ' in body


def test_the_cards_example_runs(hub: Hub, world: World, grown: Agent, tmp_path: Path) -> None:
    pushed = push(world.agent(), REPO)
    card = hub.repositories[REPO].files("main")[CARD].decode()
    (example,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    assert pushed.sha256 in example
    exec(compile(example, "card", "exec"), {"X": world.pool})


def test_names_in_a_card_are_text(world: World) -> None:
    evil = "<img src=x onerror=alert(1)>|`[x](javascript:1)`"
    agent = Agent.fit(
        world.X, [evil if name == "cat" else name for name in world.y], encoder=f"python:{evil}:f@0"
    )
    card = model_card(agent, "ada/<script>", "ab" * 32)
    assert "<img" not in re.sub(r"`[^`\n]*`", "", card)
    assert "<script" not in card.split("```python")[0]
    assert "python:" not in card.split("```python")[1], "it tells nobody to run code of a file"


@pytest.mark.more
def test_push_and_pull_on_the_command_line(hub: Hub, grown: Agent, tmp_path: Path) -> None:
    """Real processes, which know the hub by HF_ENDPOINT alone."""
    grown.save(tmp_path / "v1.agent")

    def cual(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_TOKEN": TOKEN,
            "COLUMNS": "200",
        }
        return subprocess.run(
            [sys.executable, "-c", "from cual.cli import app; app()", *arguments],
            cwd=tmp_path,
            env={**os.environ, **settings, "HF_HUB_DISABLE_XET": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    pushed = cual("push", "v1.agent", REPO, "--license", "mit", "-m", "birds")
    assert pushed.returncode == 0, pushed.stderr
    commit = hub.repositories[REPO].branches["main"]
    assert commit in pushed.stdout
    pulled = cual("pull", REPO, "-o", "back.agent", "--revision", commit)
    assert pulled.returncode == 0, pulled.stderr
    assert (tmp_path / "back.agent").read_bytes() == (tmp_path / "v1.agent").read_bytes()
    again = cual("pull", REPO, "-o", "back.agent")
    assert again.returncode == 2
    assert "--force replaces it" in again.stderr
    offline = cual("pull", REPO, "-o", "other.agent", HF_ENDPOINT="http://127.0.0.1:9")
    assert offline.returncode == 2
    assert "cannot be reached" in offline.stderr
    assert offline.stderr.count("\n") == 1
    assert not (tmp_path / "other.agent").exists()
