"""The site for tests: that of out/site if it is newer than all it is made of, else one of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("docs", "src/cual", "tools/site")
FILES = ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def built(folder: Path) -> Path:
    """A built site. It is made in the folder if there is none that is up to date."""
    ready = ROOT / "out" / "site" / "index.html"
    if ready.exists() and ready.stat().st_mtime > newest():
        return ready.parent
    done = build(folder / "site")
    assert done.returncode == 0, done.stderr
    return folder / "site"


def build(site: Path, root: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """Build it, strictly."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def newest() -> float:
    """When the last of all sources was written."""
    named = [
        path for folder in SOURCES for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts
    ]
    return max(path.stat().st_mtime for path in [*named, *(ROOT / file for file in FILES)])
