"""A PostgreSQL server for tests: its own folder, a free port of the loopback, ended with the block."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

DEBIAN = Path("/usr/lib/postgresql")
USER = "cual"
# Nothing here outlives the test, so nothing need be written out for good.
OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "4GB",
    "max_connections": "300",
}


def newest() -> Path | None:
    """Where the programs of the newest PostgreSQL are that Debian has installed."""
    found = [p.parent for p in DEBIAN.glob("*/bin/postgres") if p.parent.parent.name.isdigit()]
    return max(found, key=lambda bin: int(bin.parent.name), default=None)


@contextmanager
def server() -> Iterator[str]:
    """The address of a server without the name of a database: ``postgresql://cual:…@127.0.0.1:PORT/``."""
    binaries = newest()
    if binaries is None:
        pytest.skip(f"no PostgreSQL in {DEBIAN}; apt-get install postgresql")
    memory = Path("/dev/shm")  # each database is hundreds of files
    where = memory if os.access(memory, os.W_OK) else Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="cual-postgres-", dir=where))
    password, port = secrets.token_hex(8), _free_port()
    # PostgreSQL refuses to run as root; then it runs as the user that Debian made for it.
    other = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        (folder / "password").write_text(password)
        if other:
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        data = folder / "data"
        make = [binaries / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--no-sync"]
        made = subprocess.run(
            [*make, f"--pwfile={folder / 'password'}", "-E", "UTF8", "--locale=C.UTF-8"],
            capture_output=True,
            text=True,
            cwd="/",
            **other,
        )
        assert made.returncode == 0, made.stderr
        options = ["-h", "127.0.0.1", "-p", str(port), "-k", folder]
        options += [part for name, value in OPTIONS.items() for part in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            running = subprocess.Popen(
                [binaries / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd="/", **other
            )
        address = f"postgresql://{USER}:{password}@127.0.0.1:{port}/"
        try:
            _wait(address, running, folder / "log")
            yield address
        finally:
            running.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept, so nothing need be written
            running.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(address: str) -> str:
    """The address of an empty database of its own."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(address + "postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # pyright: ignore
    return address + name


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def _wait(address: str, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        if running.poll() is not None:
            break
        try:
            psycopg.connect(address + "postgres", connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL does not start:\n{log.read_text()}")
