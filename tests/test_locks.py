"""One process at a time in a folder, and what the others are told."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cual.errors import FolderInUse
from cual.locks import claim

HOLDER = """
import sys, time
from pathlib import Path
from cual.locks import claim
lock = claim(Path(sys.argv[1]))
print("mine", flush=True)
time.sleep(60)
"""


def test_the_second_is_told_who_was_first(tmp_path: Path) -> None:
    lock = claim(tmp_path / "deep" / "lock", "written")
    for _ in range(2):  # asking does not wipe out the owner's name
        with pytest.raises(FolderInUse, match=rf"deep is being written by process {os.getpid()} on "):
            claim(tmp_path / "deep" / "lock", "written")
    lock.release()
    claim(tmp_path / "deep" / "lock").release()


def test_a_killed_process_frees_its_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(FolderInUse, match=f"process {holder.pid} on "):
            claim(tmp_path / "lock")
        holder.kill()
        holder.wait()
    claim(tmp_path / "lock").release()


def test_whoever_waits_comes_next(tmp_path: Path) -> None:
    claimed = threading.Event()

    def hold() -> None:
        lock = claim(tmp_path / "lock")
        claimed.set()
        time.sleep(0.2)
        lock.release()

    threading.Thread(target=hold).start()
    claimed.wait()
    began = time.monotonic()
    claim(tmp_path / "lock", wait=True).release()
    assert time.monotonic() - began >= 0.1
