"""Exports of the service: the same labels in every format and through every door, and each is written down."""

import csv
import io
import json
import threading
import zipfile
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from cual import Client
from cual.cli import app as command_line
from cual.data.labels import SKIP
from cual.errors import BadOption, NotFound, UnknownName
from cual.export import COLUMNS, formats
from cual.loop.labels import LabelRow
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.web.api import exports
from serve.test_client import served
from serving import Service
from visiting import site

pytestmark = pytest.mark.more


def over(service: Service) -> int:
    """An adaptation whose questions two people answered, and of which bob has judged two beliefs."""
    task = service.start()
    (question,) = service.workspace.lend(task, service.bob, 1)
    service.workspace.answer(task, service.bob, {question.id: service.truth(question.sample)})
    service.answer_all(task)
    believed = service.workspace.pseudo_labels(task)
    verdicts = {believed[0]["row"]: "confirm", believed[1]["row"]: "reject"}
    service.workspace.review(task, service.bob, verdicts)
    return task


def rows_of(service: Service, **wanted: object) -> list[LabelRow]:
    return list(service.workspace.export(service.eve, **wanted).rows)


def test_the_rows_are_what_the_page_shows(service: Service) -> None:
    task = over(service)
    rows = rows_of(service, adaptation=task)
    answers = {q.sample: q for q in service.workspace.questions(task)}
    believed = {
        row["sample"]: row for row in service.workspace.pseudo_labels(task) if row["verdict"] != "reject"
    }
    assert {row.sample: row.label for row in rows} == {
        **{sample: question.effective for sample, question in answers.items()},
        **{sample: row["label"] for sample, row in believed.items()},
    }
    for row in rows:
        assert (row.adaptation, row.agent, row.pool, row.version) == (task, service.agent, service.pool, None)
        if row.source == "answer":
            question = answers[row.sample]
            assert (row.person, row.row, row.round) == (
                question.answers[0].person,
                question.row,
                question.round,
            )
            assert (row.score, row.zone, row.suggestion) == (question.score, question.zone, question.suggestion)
            assert row.at == question.answers[0].at.isoformat(timespec="milliseconds")
        else:
            assert (row.row, row.doubt) == (believed[row.sample]["row"], believed[row.sample]["doubt"])
    assert {row.person for row in rows} == {"ann", "bob", None}
    (verdict,) = [row for row in rows if row.source == "verdict"]
    assert (verdict.person, verdict.verdict) == ("bob", "confirm")
    assert {row.version for row in rows} == {None}
    service.finish(task)
    assert {row.version for row in rows_of(service, adaptation=task)} == {1}


def test_everything_has_what_does_not_count(service: Service) -> None:
    task = service.start()
    one, two = service.workspace.lend(task, service.bob, 2)
    for label in ("cat", "dog"):
        service.workspace.answer(task, service.bob, {one.id: label})
    service.workspace.answer(task, service.ann, {one.id: "cat"})
    service.workspace.answer(task, service.bob, {two.id: SKIP})
    assert [(row.sample, row.label) for row in rows_of(service, adaptation=task)] == [(one.sample, "dog")]
    said = [
        (row.sample, row.label, row.person, row.counts)
        for row in rows_of(service, adaptation=task, everything=True)
    ]
    assert said == [
        (one.sample, "cat", "bob", False),
        (one.sample, "dog", "bob", True),
        (one.sample, "cat", "ann", False),
        (two.sample, None, "bob", False),
    ]


def test_several_adaptations_of_an_agent(service: Service) -> None:
    first = over(service)
    second = service.start()
    service.answer_round(second)
    dropped = service.start()
    service.answer_round(dropped)
    service.workspace.drop(dropped, service.ann)
    rows = rows_of(service, agent=service.agent)
    assert rows == [*rows_of(service, adaptation=first), *rows_of(service, adaptation=second)]
    assert rows == rows_of(service), "there is no other agent"
    assert rows_of(service, adaptation=dropped), "by itself it can be had"
    for wanted in ({"adaptation": 99}, {"agent": 99}):
        with pytest.raises(NotFound):
            service.workspace.export(service.eve, **wanted)
    with pytest.raises(BadOption, match="not both"):
        service.workspace.export(service.eve, adaptation=first, agent=service.agent)
    with pytest.raises(UnknownName):
        service.workspace.export(service.eve, adaptation=first, format="xml")


def test_what_is_taken_is_written_down_before_it_is_given(service: Service) -> None:
    task = service.start()
    service.workspace.export(service.eve, adaptation=task, everything=True, format="jsonl")  # never read
    service.workspace.export(service.bob, agent=service.agent, format="parquet")
    service.workspace.export(OPERATOR)
    trail = service.workspace.audit(service.ann, action="export")
    assert [(row.person, row.kind, row.thing) for row in trail] == [
        ("the operator", "workspace", None),
        ("bob", "agent", service.agent),
        ("eve", "adaptation", task),
    ]
    assert trail[2].details == {"format": "jsonl", "everything": True, "adaptations": [task]}


# -- over HTTP -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", formats.names())
def test_every_format_over_http(service: Service, tmp_path: Path, name: str) -> None:
    task = over(service)
    rows = rows_of(service, adaptation=task)
    with site(service) as here:
        answer = here.bearer(Role.reader).get(f"/api/adaptations/{task}/labels", params={"format": name})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == formats[name].media_type
        file = f"labels-adaptation-{task}{formats[name].suffix or '.zip'}"
        assert answer.headers["content-disposition"] == f'attachment; filename="{file}"'
        assert int(answer.headers["content-length"]) == len(answer.content)
        assert [row[:2] for row in read(name, answer.content, tmp_path)] == [row[:2] for row in rows]
        agents = here.bearer().get(
            f"/api/agents/{service.agent}/labels", params={"format": name, "everything": True}
        )
        assert len(read(name, agents.content, tmp_path / "all")) > len(rows)
    assert not list(service.workspace.uploads.iterdir()), "nothing is left"


def read(name: str, content: bytes, folder: Path) -> list[tuple[object, ...]]:
    if name == "csv":
        return [tuple(row.values()) for row in csv.DictReader(io.StringIO(content.decode()))]
    if name == "jsonl":
        return [tuple(json.loads(line).values()) for line in content.decode().split("\n")[:-1]]
    if name == "parquet":
        return [tuple(row.values()) for row in parquet.read_table(io.BytesIO(content)).to_pylist()]
    import datasets

    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        assert all(file.startswith("labels/") for file in packed.namelist())
        packed.extractall(folder)
    return [tuple(row.values()) for row in datasets.load_from_disk(str(folder / "labels"))]


def test_labels_that_look_like_formulas_are_text_in_csv(service: Service) -> None:
    task = service.start()
    (question,) = service.workspace.lend(task, service.bob, 1)
    service.workspace.answer(task, service.bob, {question.id: "=HYPERLINK(1)"})
    with site(service) as here:
        (row,) = read("csv", here.bearer().get(f"/api/adaptations/{task}/labels").content, Path())
        assert row[:2] == (question.sample, "'=HYPERLINK(1)")


def test_few_exports_at_a_time(service: Service) -> None:
    """Whoever does not read what they asked for keeps others from nothing; what has ended makes room."""
    task = service.start()
    url = f"/api/adaptations/{task}/labels"
    with site(service) as here:
        under_way: exports.UnderWay = here.app.state.exports
        eve = service.eve.id
        for _ in range(exports.MOST_PERSON):
            under_way.begin(eve)
        refused = here.bearer(Role.reader).get(url)
        assert (refused.status_code, refused.json()["error"]) == (429, "TooManyRequests")
        assert here.bearer(Role.admin).get(url).status_code == 200
        for person in range(1000, 1000 + exports.MOST - exports.MOST_PERSON):
            under_way.begin(person)
        full = here.bearer(Role.admin).get(url)
        assert (full.status_code, full.json()["error"]) == (503, "Overloaded")
        under_way.end(eve)
        for _ in range(2 * exports.MOST):  # each gives its place back, also those that fail
            assert here.bearer(Role.reader).get(url).status_code == 200
            assert here.bearer(Role.reader).get("/api/adaptations/99/labels").status_code == 404
        assert here.bearer(Role.reader).get(url, params={"format": "xml"}).status_code == 422


def test_exports_while_people_go_on_answering(service: Service) -> None:
    task = service.start(12)
    with site(service) as here:
        client = here.bearer(Role.reader)
        answers: list[int] = []

        def look() -> None:
            for _ in range(20):
                answer = client.get(f"/api/adaptations/{task}/labels", params={"format": "jsonl"})
                answers.append(answer.status_code)
                samples = [row[0] for row in read("jsonl", answer.content, Path())]
                assert len(samples) == len(set(samples))

        looking = threading.Thread(target=look)
        looking.start()
        service.answer_all(task)
        looking.join()
    assert answers == [200] * 20


# -- client and command line -----------------------------------------------------------------------------------


def test_the_client_writes_files(service: Service, tmp_path: Path) -> None:
    task = over(service)
    with site(service) as here, served(here.app) as url, Client(url, here.token(Role.reader)) as client:
        client.adaptation(task).export(tmp_path / "labels.jsonl")
        lines = (tmp_path / "labels.jsonl").read_text(encoding="utf-8").splitlines()
        assert [LabelRow(**json.loads(line)) for line in lines] == rows_of(service, adaptation=task)
        client.export(service.agent, tmp_path / "labels", format="csv", everything=True)
        assert (tmp_path / "labels").read_text(encoding="utf-8").splitlines()[0] == ",".join(COLUMNS)
        with pytest.raises(FileExistsError):
            client.export(service.agent, tmp_path / "labels", format="csv")
        with pytest.raises(NotFound):
            client.export(99, tmp_path / "none.csv")
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["labels", "labels.jsonl"]


def test_cual_export_of_a_workspace(service: Service, tmp_path: Path) -> None:
    task = over(service)
    rows, folder = rows_of(service, adaptation=task), service.workspace.folder
    url = service.workspace.database.url.render_as_string(hide_password=False)

    def cual(*arguments: object) -> str:
        command = ["export", str(folder), "--database", url, *(str(a) for a in arguments)]
        result = CliRunner().invoke(command_line, command)
        return result.output if result.exit_code == 0 else f"refused: {result.stderr}"

    assert f"{len(rows)} labels" in cual("-o", tmp_path / "labels.jsonl", "--adaptation", task)
    lines = (tmp_path / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    assert [LabelRow(**json.loads(line)) for line in lines] == rows
    assert f"{len(rows)} labels" in cual("-o", tmp_path / "labels.csv", "--agent", service.agent)
    assert f"{len(rows)} labels" in cual("-o", tmp_path / "labels.parquet")
    assert "there is no adaptation 99" in cual("-o", tmp_path / "none.csv", "--adaptation", 99)
    assert f"{len(rows)} links" in cual("-o", tmp_path / "sorted", "--format", "folder")
    linked = [path for path in (tmp_path / "sorted").rglob("*") if path.is_symlink()]
    assert {path.parent.name for path in linked} == {str(row.label) for row in rows}
    pictures = service.workspace.home.pool_folder(service.pool) / "pictures"
    assert {path.resolve() for path in linked} == {pictures / f"{row.row}.webp" for row in rows}
    made = [row.details["format"] for row in service.workspace.audit(OPERATOR, by=0, action="export")]
    assert made == ["folder", "parquet", "csv", "jsonl"]
