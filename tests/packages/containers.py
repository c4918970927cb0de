"""A Dockerfile read as steps, and those steps run without Docker in a folder that stands for the image's disk.

Base images are not fetched, users are not made, and Debian's packages are not installed: `left_out` says which
steps these were.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import venv
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One instruction: ``RUN``, ``COPY``, … and what it is given."""

    kind: str
    text: str


def steps(dockerfile: Path) -> list[Step]:
    """The instructions of a file, lines that go on put together."""
    lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parts = [line.partition(" ") for line in whole.splitlines() if line.strip()]
    return [Step(kind.upper(), text.strip()) for kind, _, text in parts]


def words(text: str) -> list[str]:
    """Of an instruction in either form: a JSON list, or words."""
    return json.loads(text) if text.startswith("[") else shlex.split(text)


@dataclass
class Image:
    """What the steps have made so far."""

    disk: Path
    """Stands for ``/``."""
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    user: str = ""
    left_out: list[str] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Where a path of the image lies here."""
        return self.disk / str(Path(self.folder) / path).lstrip("/")

    def here(self, text: str) -> str:
        """A command with the image's own folders replaced by where they lie here."""
        return re.sub(r"(?<![\w.])/(opt/cual|build|workspace)\b", lambda m: f"{self.disk}/{m[1]}", text)

    def variables(self) -> dict[str, str]:
        """What its processes see; of ours, only where pip finds packages."""
        of_pip = ("PIP_", "SSL_", "REQUESTS_")
        ours = {name: value for name, value in os.environ.items() if name.startswith(of_pip)}
        path = os.pathsep.join([str(self.disk / "usr/bin"), "/usr/bin", "/bin"])
        home = self.disk / "home"
        home.mkdir(exist_ok=True)
        known = {**ours, "PATH": path, "HOME": str(home), "OMP_NUM_THREADS": "1", **self.arguments}
        for name, value in self.environment.items():
            known[name] = self.here(value).replace("$PATH", path)
        return known


def build(dockerfile: Path, context: Path, disk: Path, python: Path, given: dict[str, str]) -> Image:
    """Run the steps of all stages on one disk; `python` is the base image's, `given` its build arguments."""
    (disk / "usr/bin").mkdir(parents=True)
    (disk / "usr/bin/python").symlink_to(python)
    image = Image(disk)
    for step in steps(dockerfile):
        if step.kind == "FROM":
            image = Image(disk, left_out=[*image.left_out, f"FROM {step.text}"])
        elif step.kind == "ARG":
            name, _, default = step.text.partition("=")
            image.arguments[name] = given.get(name, default)
        elif step.kind == "ENV":
            image.environment |= dict(part.split("=", 1) for part in shlex.split(step.text))
        elif step.kind == "WORKDIR":
            image.folder = step.text
            image.place(".").mkdir(parents=True, exist_ok=True)
        elif step.kind == "COPY":
            _copy(image, context, shlex.split(step.text))
        elif step.kind == "RUN":
            _run(image, step.text)
        elif step.kind == "USER":
            image.user = step.text
        elif step.kind == "ENTRYPOINT":
            image.entrypoint = words(step.text)
        elif step.kind == "CMD":
            image.command = words(step.text)
    return image


def _copy(image: Image, context: Path, parts: list[str]) -> None:
    if parts[0].startswith("--from="):  # all stages share one disk
        return
    *sources, target = parts
    for source in sources:
        into = image.place(target)
        if target.endswith("/"):
            into = into / Path(source).name
        if (context / source).is_dir():
            shutil.copytree(context / source, into, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(context / source, into)


def _run(image: Image, text: str) -> None:
    if text.startswith(("useradd", "apt-get")):
        image.left_out.append(f"RUN {text.split()[0]}")
        image.place("/workspace").mkdir(exist_ok=True)
        return
    done = subprocess.run(
        ["/bin/sh", "-ec", image.here(text)],
        cwd=image.place("."),
        env=image.variables(),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def make_python(folder: Path) -> Path:
    """A bare environment, whose Python knows no package of ours."""
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"
