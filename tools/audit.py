"""Known vulnerabilities of what a lock names, looked up by pip-audit; says so where it cannot look them up.

    python tools/audit.py locks/py3.11-linux-x86_64.txt

Exits with 0 only where every package was looked up and none has a known vulnerability; with 1 where one has,
and with 2 where something was not looked up. pip-audit itself takes a package that the service does not answer
for as skipped, and says that nothing was found: behind a mirror without that service it says so of everything.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

FINE, VULNERABLE, NOT_AUDITED = 0, 1, 2
OPTIONS = (
    "--require-hashes",
    "--disable-pip",
    "--format",
    "json",
    "--progress-spinner",
    "off",
    "--desc",
    "off",
)


@dataclass(frozen=True)
class Finding:
    """What came of an audit.

    >>> Finding(3, ["urllib3 1.0: CVE-2099-1, fixed in 2.0"]).status
    1
    """

    audited: int = 0
    vulnerable: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    failure: str = ""

    @property
    def status(self) -> int:
        if self.vulnerable:
            return VULNERABLE
        return NOT_AUDITED if self.failure or self.skipped or not self.audited else FINE


def read(report: str, errors: str) -> Finding:
    """What pip-audit's JSON says, or that it said nothing."""
    try:
        rows: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = errors.strip().splitlines() or ["pip-audit said nothing"]
        return Finding(failure=lines[-1][:500])
    vulnerable = [
        f"{row['name']} {row['version']}: {found['id']}"
        + (f", fixed in {', '.join(found['fix_versions'])}" if found.get("fix_versions") else "")
        for row in rows
        for found in row.get("vulns", ())
    ]
    skipped = [str(row["name"]) for row in rows if "skip_reason" in row]
    return Finding(len(rows) - len(skipped), vulnerable, skipped)


def tell(finding: Finding) -> None:
    """In the words of somebody who has to act on it."""
    for line in finding.vulnerable:
        print(line)
    if finding.failure:
        print(
            f"NOT AUDITED: the database of vulnerabilities could not be asked: {finding.failure}",
            file=sys.stderr,
        )
    elif finding.skipped:
        some = ", ".join(finding.skipped[:5]) + (", …" if len(finding.skipped) > 5 else "")
        print(
            f"NOT AUDITED: {len(finding.skipped)} of {len(finding.skipped) + finding.audited} packages, of "
            f"which the service at PyPI knows nothing ({some}). Is that a mirror, or is there no internet?",
            file=sys.stderr,
        )
    if finding.status == FINE:
        print(f"no known vulnerability in {finding.audited} packages")


def main(lock: str) -> int:
    command = [sys.executable, "-m", "pip_audit", *OPTIONS, "--requirement", lock]
    done = subprocess.run(command, capture_output=True, text=True)
    finding = read(done.stdout, done.stderr)
    tell(finding)
    return finding.status


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
