"""The pages under a FastAPI app, without a browser: several apps in one process, and what is no page."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.web.app import create_app


@pytest.mark.parametrize("name", ["first", "second"])
def test_every_app_of_a_process_shows_its_own_workspace(tmp_path: Path, name: str) -> None:
    app = create_app(Workspace.open(tmp_path / name))
    person = app.state.accounts.add_person(f"Owner of the {name}", Role.admin, by=OPERATOR)
    _, secret = app.state.accounts.new_token(person.id, "sign-in", by=OPERATOR)
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        page = client.post("/sign-in", data={"token": secret}, headers={"accept": "text/html"})
        assert page.status_code == 200
        assert f"Owner of the {name}" in page.text
        assert client.get("/adaptations/7", headers={"accept": "text/html"}).status_code == 404
        assert client.get("/adaptations/9999999999999999999999").status_code == 404
        assert client.get("/agents/1").status_code == 404
        missing = client.get("/api/nothing")
        assert (missing.status_code, missing.json()["error"]) == (404, "NotFound")


def test_strangers_see_no_page(tmp_path: Path) -> None:
    app = create_app(Workspace.open(tmp_path))
    with TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=False) as client:
        for path in ("/", "/adaptations/1", "/people", "/audit"):
            answer = client.get(path, headers={"accept": "text/html"})
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        assert client.get("/_nicegui_ws/socket.io/?EIO=4&transport=polling").status_code == 401
