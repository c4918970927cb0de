"""Makes the source say which release it is: version, day and changelog, everywhere they are written.

    python tools/release.py 0.3.0            # writes; then look at git diff and commit
    python tools/release.py --check          # nothing to write: is it ready to be released?

RELEASING.md says what comes before and after. Nothing is built, tagged or sent.
"""

import datetime
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]"
PLACES = {
    "src/cual/__init__.py": r'^__version__ = "(.*)"$',
    "CITATION.cff": r"^version: (.*)$",
    "recipe/recipe.yaml": r'^  version: "(.*)"$',
    "deploy/kubernetes/deployment.yaml": r"^ +image: registry\.example\.org/cual:(\S+)",
}
"""Files that name the version, and where. The first is what the package is built with; the others follow it."""
DAY = ("CITATION.cff", r"^date-released: (.*)$")


def main(version: str, today: datetime.date, root: Path = ROOT) -> None:
    """Write a version into all places, and give what is unreleased its name and day."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        sys.exit(f"{version} is no version: three numbers, as 0.3.0, or 0.3.0rc1")
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    if f"## [{version}]" in changelog:
        sys.exit(f"{CHANGELOG} has a section of {version} already")
    before, _, rest = changelog.partition(f"{UNRELEASED}\n")
    unreleased = rest.partition("\n## [")[0].strip()
    if not unreleased:
        sys.exit(f"{CHANGELOG} has nothing under {UNRELEASED}: what would be released?")
    changed = {file: _put(root, file, pattern, version) for file, pattern in PLACES.items()}
    changed[DAY[0]] = _replaced(changed[DAY[0]], DAY[1], today.isoformat(), DAY[0])
    changed[CHANGELOG] = f"{before}{UNRELEASED}\n\n## [{version}] - {today.isoformat()}\n{rest}"
    for file, text in changed.items():
        (root / file).write_text(text, encoding="utf-8")
        print(file)


def problems(root: Path = ROOT) -> list[str]:
    """What must not be so in a release."""
    found: list[str] = []
    versions = {file: _value(root, file, pattern) for file, pattern in PLACES.items()}
    version = versions["src/cual/__init__.py"]
    found += [
        f"{file} says {said}, the package {version}" for file, said in versions.items() if said != version
    ]
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(version)}\] - (\S+)$", changelog, re.MULTILINE)
    if section is None:
        found.append(f"{CHANGELOG} has no section of {version}")
    elif section[1] != (day := _value(root, *DAY)):
        found.append(f"{CHANGELOG} says {section[1]}, {DAY[0]} {day}")
    if changelog.partition(f"{UNRELEASED}\n")[2].partition("\n## [")[0].strip():
        found.append(f"{CHANGELOG} has changes under {UNRELEASED}: python tools/release.py VERSION")
    urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    found += [f"pyproject.toml: {name} is {url}" for name, url in urls.items() if "example.org" in url]
    return found


def _value(root: Path, file: str, pattern: str) -> str:
    match = re.search(pattern, (root / file).read_text(encoding="utf-8"), re.MULTILINE)
    return "nothing" if match is None else match[1]


def _put(root: Path, file: str, pattern: str, value: str) -> str:
    return _replaced((root / file).read_text(encoding="utf-8"), pattern, value, file)


def _replaced(text: str, pattern: str, value: str, file: str) -> str:
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if len(matches) != 1:
        sys.exit(f"{file}: {len(matches)} lines are like {pattern}; one was expected")
    start, end = matches[0].span(1)
    return text[:start] + value + text[end:]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(problems()))
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1], datetime.datetime.now(datetime.UTC).date())
