"""The lock of the environment that `make` sets up: exact versions, with the hashes of all their files.

    python tools/lock.py name       # which lock fits this Python and this platform
    python tools/lock.py renew      # make it anew, with what it names already where that still fits
    python tools/lock.py renew --upgrade

A lock fits one minor version of Python on one platform, after which it is named; elsewhere make installs
without one and says so. pip-tools chooses the versions; the hashes are those that PyPI's index tells of all
files of a version (pip-tools would download them all). To ask for the name, the standard library is enough.

Renew it where pip finds PyTorch's wheel for CPUs (https://download.pytorch.org/whl/cpu, or find-links): PyPI's
for Linux brings NVIDIA's libraries, which nobody needs who has no such card. The lock names the version without
"+cpu", with the hashes of both, so that either is taken. Where there are both, pip would take that whose hash
its index tells, PyPI's; so `locks/local` names the other one alone, and make tries that first.
"""

import hashlib
import html
import os
import platform
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
HEAD = "# Exact versions of what make installs, with the hashes of their files. Renew it: make lock\n"
LOCAL_HEAD = "# Builds that PyPI does not have, which make takes where pip finds them. Renewed with the lock\n"
OPTIONS = (
    *("--extra", "dev", "--strip-extras", "--no-header", "--no-annotate", "--quiet", "--allow-unsafe"),
    *("--no-emit-options", "--no-emit-find-links", "--no-emit-index-url", "--no-emit-trusted-host"),
)
PIN = re.compile(r"^([\w.-]+)==([\w.!+-]+)", re.MULTILINE)
LINK = re.compile(r'href="[^"]*?/([^"/#]+)#sha256=([0-9a-f]{64})"')


def name() -> str:
    """What a lock for this Python on this platform is called."""
    return f"py{sys.version_info.major}.{sys.version_info.minor}-{sys.platform}-{platform.machine()}"


def renew(more: list[str]) -> Path:
    """Let pip-tools choose versions, and look up the hashes."""
    path = ROOT / "locks" / f"{name()}.txt"
    path.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        chosen = Path(folder) / "chosen.txt"
        if path.exists():  # what is named there stays, where it can
            chosen.write_text("\n".join(f"{package}=={version}" for package, version in pins(path.read_text())))
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, *more, "--output-file", str(chosen)]
        subprocess.run([*command, "pyproject.toml"], cwd=ROOT, check=True)
        text = chosen.read_text(encoding="utf-8")
    with ThreadPoolExecutor(8) as threads:
        blocks = list(threads.map(lambda pin: block(*pin), pins(text)))
    path.write_text(HEAD + "".join(blocks), encoding="utf-8")
    builds = [(package, version) for package, version in pins(text) if "+" in version]
    local = path.parent / "local" / path.name
    local.parent.mkdir(exist_ok=True)
    lines = [f"{package}=={version} --hash=sha256:{hash_of(package, version)}\n" for package, version in builds]
    local.write_text(LOCAL_HEAD + "".join(lines), encoding="utf-8")
    return path


def pins(text: str) -> list[tuple[str, str]]:
    """
    >>> pins("# a comment\\nnumpy==2.4.6 \\\\\\n    --hash=sha256:ab\\ntorch==2.13.0+cpu\\n")
    [('numpy', '2.4.6'), ('torch', '2.13.0+cpu')]
    """
    return PIN.findall(text)


def block(package: str, version: str) -> str:
    """What the lock says of a package."""
    published, _, local = version.partition("+")
    with urllib.request.urlopen(f"{INDEX}/{package}/", timeout=60) as answer:
        hashes = of_version(answer.read().decode(), published)
    if not hashes:
        sys.exit(f"{INDEX} has no file of {package} {published}: the lock would fit nowhere else")
    if local:
        hashes |= {hash_of(package, version)}
    lines = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(hashes))
    return f"{package}=={published}{lines}\n"


def of_version(page: str, version: str) -> set[str]:
    """Hashes that a page of an index tells of the files of one version: its source, and wheels that fit."""
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename
    from packaging.utils import parse_sdist_filename as of_source
    from packaging.utils import parse_wheel_filename as of_wheel
    from packaging.version import Version

    hashes: set[str] = set()
    for link, digest in LINK.findall(page):
        file = urllib.parse.unquote(html.unescape(link))
        try:
            if file.endswith(".whl"):
                _, found, _, tags = of_wheel(file)
                fit = any(fits(tag.interpreter, tag.abi, tag.platform) for tag in tags)
            else:
                found, fit = of_source(file)[1], True
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue  # an egg, or an installer of old
        if fit and found == Version(version):
            hashes.add(digest)
    return hashes


def fits(interpreter: str, abi: str, system: str) -> bool:
    """Whether a wheel is for this Python and this kind of machine, whichever release of its system."""
    here = {"linux": "linux", "darwin": "macosx", "win32": "win"}[sys.platform]
    machine = platform.machine().lower()
    ours = system == "any" or (here in system and system.endswith((machine, "universal2")))
    return ours and (interpreter, abi) in _interpreters()


@cache
def _interpreters() -> set[tuple[str, str]]:
    from packaging.tags import sys_tags

    return {(tag.interpreter, tag.abi) for tag in sys_tags()}


def hash_of(package: str, version: str) -> str:
    """SHA-256 of a build that only pip's other places have."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*command, f"{package}=={version}"], check=True)
        (file,) = os.scandir(folder)
        return hashlib.sha256(Path(file.path).read_bytes()).hexdigest()


if __name__ == "__main__":
    if sys.argv[1:] == ["name"]:
        print(name())
    elif sys.argv[1:2] == ["renew"]:
        print(renew(sys.argv[2:]).relative_to(ROOT))
    else:
        sys.exit(__doc__)
