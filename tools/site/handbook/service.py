"""A service without people or data, for the pages that ask it what it can do."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any


@contextmanager
def _application() -> Iterator[Any]:
    from cual.serve.rules.workspace import Workspace
    from cual.serve.web.app import create_app
    from cual.serve.web.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.open(Path(folder) / "workspace")
        try:
            yield create_app(workspace, Settings(pages=False))
        finally:
            workspace.close()


@cache
def described() -> tuple[dict[str, Any], str]:
    """What the service says of its routes (OpenAPI), and its metrics as Prometheus reads them."""
    with _application() as app:
        return app.openapi(), app.state.metrics.text().decode()
