"""Builds the wheel twice, at different places and times, and compares: the same source gives the same bytes.

    python tools/wheel.py dist

The moment that goes into it is that of the last commit (SOURCE_DATE_EPOCH, where it is set). Needs `build` and
hatchling, as the lock has them: nothing is fetched.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "src")
LONG_AGO = "315532800"
"""1980, the first moment that a zip can name: where there is neither git nor SOURCE_DATE_EPOCH."""


def moment() -> str:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    git = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or LONG_AGO


def build(place: Path, umask: int, touched: float) -> Path:
    """A wheel of a copy of the source, whose files have another age and other rights than elsewhere."""
    source = place / "source"
    source.mkdir(parents=True)
    for part in NEEDED:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / part, source / part)
    for path in source.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
        os.utime(path, (touched, touched))
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(place), str(source)]
    done = subprocess.run(
        command, capture_output=True, text=True, umask=umask, env={**os.environ, "SOURCE_DATE_EPOCH": moment()}
    )
    if done.returncode:
        sys.exit(f"the wheel could not be built:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (wheel,) = place.glob("*.whl")
    return wheel


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        first = build(Path(name) / "one", 0o022, 1_000_000_000)
        second = build(Path(name) / "another place", 0o077, 1_500_000_000)
        digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in (first, second)]
        if digests[0] != digests[1]:
            sys.exit(f"built twice, {first.name} differs: {digests[0]} and {digests[1]}")
        out.mkdir(parents=True, exist_ok=True)
        target = out / first.name
        shutil.copyfile(first, target)
    print(f"{digests[0]}  {target}  (twice the same)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
