"""Where there is no POSIX: what people do first works, what cannot says so, text files name their encoding."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.more

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
WINDOWS = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}
"""What a terminal of Windows is at its worst: neither files nor output are UTF-8 unless somebody says so."""


def elsewhere(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "warn_default_encoding", str(HERE / "elsewhere.py"), str(script)]
    surroundings = {**os.environ, **WINDOWS, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, encoding="cp1252", timeout=900
    )


def test_what_people_do_first_works_where_there_is_no_posix(tmp_path: Path) -> None:
    """Every help, fit, adapt, predict, save, load and the bench's smoke; the service says what it needs."""
    done = elsewhere(HERE / "everyday.py", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    said = (tmp_path / "done.txt").read_text(encoding="utf-8").splitlines()
    assert "cual bench run --preset smoke --out smoke" in said
    assert sum(line.endswith("--help") for line in said) > 20
    assert sum(line.startswith("refused: ") for line in said) == 4
    assert done.stderr.count("need Linux or macOS") == 4
    assert not (tmp_path / "labels").exists()


NOT_THERE = """
from pathlib import Path
from types import ModuleType
import sys
def as_cual(code):
    module = ModuleType("cual.tried")
    try:
        exec(compile(code, "cual/tried.py", "exec"), module.__dict__)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing is wrong"
import cual.export.links
Path("there").write_text("x", encoding="utf-8")
for code in CODES:
    print(as_cual(code))
"""
CODES = {
    "import fcntl": "ModuleNotFoundError: No module named 'fcntl'",
    "from os import fork": "ImportError: cannot import name 'fork'",
    "import os; os.getuid()": "AttributeError: module 'os' has no attribute 'getuid'",
    "import signal; signal.SIGKILL": "AttributeError: module 'signal' has no attribute 'SIGKILL'",
    "import os; os.open('.', os.O_RDONLY)": "PermissionError",
    "open('there')": "EncodingWarning",
    "import os; f = open('there', 'rb'); os.replace('there', 'gone')": "PermissionError",
    "import os; f = open('there', 'rb'); os.remove('there')": "PermissionError",
    "import os; os.mkdir('a'); os.mkdir('b'); os.rename('a', 'b')": "PermissionError",
    "open('a:b', 'wb')": "OSError: [Errno 22]",
    "from pathlib import Path; import cual.export.links as l; l.make_link(Path('l'), Path('there'))": (
        "Unavailable: l: links cannot be made here"
    ),
    "import cual.serve": "Unavailable: the labelling service and its workspaces need Linux or macOS",
    "import os; os.replace('there', 'elsewhere')": "nothing is wrong",
}


def test_the_stand_in_notices_what_only_posix_can(tmp_path: Path) -> None:
    script = tmp_path / "tried.py"
    script.write_text(f"CODES = {list(CODES)!r}\n{NOT_THERE}", encoding="utf-8")
    done = elsewhere(script, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    for told, expected in zip(done.stdout.splitlines(), CODES.values(), strict=True):
        assert told.startswith(expected), told


# -- read as it is written -------------------------------------------------------------------------------------


def without_encoding(source: str) -> list[str]:
    """Calls that read or write text in whatever encoding the machine has."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or any(k.arg == "encoding" for k in node.keywords):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        given = {k.arg for k in node.keywords}
        modes = [
            a.value for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Constant)
        ]
        modes = [mode for mode in modes if isinstance(mode, str) and mode and set(mode) <= set("rwxabt+")]
        text = (
            name in ("read_text", "write_text", "TextIOWrapper")
            or (name == "open" and not owner and not any("b" in mode for mode in modes))
            or (name == "open" and owner and any("b" not in mode for mode in modes) and owner != "packed")
            or (name in ("NamedTemporaryFile", "TemporaryFile") and any("b" not in mode for mode in modes))
            or (name in ("run", "Popen", "check_output") and given & {"text", "universal_newlines"})
        )
        if text:
            found.append(f"{node.lineno}: {ast.unparse(node)[:100]}")
    return found


@pytest.mark.parametrize(
    ("source", "n"),
    [
        ("Path('x').read_text()", 1),
        ("path.read_text(encoding='utf-8')", 0),
        ("open('x')", 1),
        ("open('x', 'rb')", 0),
        ("path.open('w')", 1),
        ("path.open('ab')", 0),
        ("tempfile.NamedTemporaryFile('w')", 1),
        ("tempfile.NamedTemporaryFile(delete=False)", 0),
        ("subprocess.run(['x'], text=True)", 1),
        ("workspace.open(folder)", 0),
    ],
)
def test_text_without_an_encoding_is_found(source: str, n: int) -> None:
    assert len(without_encoding(source)) == n


def test_text_files_name_their_encoding() -> None:
    """Windows takes another one where none is named."""
    found = {
        str(file.relative_to(ROOT)): without_encoding(file.read_text(encoding="utf-8")) for file in SOURCES
    }
    assert {file: calls for file, calls in found.items() if calls} == {}


def test_only_the_service_imports_what_only_posix_has() -> None:
    """Macs and Windows have the rest; `cual.serve` says so itself before it does."""
    posix = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
    importing: set[str] = set()
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            if posix & {name.partition(".")[0] for name in names}:
                importing.add(file.relative_to(ROOT / "src" / "cual").parts[0])
    assert importing == {"serve"}
