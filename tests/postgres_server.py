"""A PostgreSQL server for tests: its own folder, a free port of the loopback, ended with the block."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


class Server:
    """A server of its own folder and port, which can be killed and started again."""

    def __init__(self, binaries: Path, folder: Path, options: Mapping[str, str]) -> None:
        self._binaries, self._folder, self._options = binaries, folder, options
        self._password, self._port = secrets.token_hex(8), _free_port()
        # PostgreSQL refuses to run as root; then it runs as the user that Debian made for it.
        root = os.geteuid() == 0
        self._user: Any = {"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}
        self._process: subprocess.Popen[Any] | None = None
        self._initialise()
        self.start()

    @property
    def address(self) -> str:
        """Without the name of a database: ``postgresql://cual:…@127.0.0.1:PORT/``."""
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self._port}/"

    def _initialise(self) -> None:
        password = self._folder / "password"
        password.write_text(self._password)
        if self._user:
            for path in (self._folder, password):
                shutil.chown(path, "postgres", "postgres")
        make = [self._binaries / "initdb", "-D", self._folder / "data", "-U", USER, "-A", "scram-sha-256"]
        made = subprocess.run(
            [*make, "--no-sync", f"--pwfile={password}", "-E", "UTF8", "--locale=C.UTF-8"],
            capture_output=True,
            text=True,
            cwd="/",
            **self._user,
        )
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        """Start it and wait until it answers; after a kill, as often as its old processes are in the way."""
        log = self._folder / "log"
        options = ["-h", "127.0.0.1", "-p", str(self._port), "-k", self._folder]
        options += [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        for _ in range(300):
            if self._process is None or self._process.poll() is not None:
                with log.open("ab") as held:
                    self._process = subprocess.Popen(
                        [self._binaries / "postgres", "-D", self._folder / "data", *options],
                        stdout=held,
                        stderr=held,
                        cwd="/",
                        **self._user,
                    )
            try:
                psycopg.connect(self.address + "postgres", connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL does not start:\n{log.read_text()}")

    def kill(self) -> None:
        """End it without a word; those that work for it end when they notice."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """At once: nothing of it is kept, so nothing need be written."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(30)


@contextmanager
def launched(**changes: str) -> Iterator[Server]:
    """A server with some options changed."""
    binaries = newest()
    if binaries is None:
        pytest.skip(f"no PostgreSQL in {DEBIAN}; apt-get install postgresql")
    memory = Path("/dev/shm")  # each database is hundreds of files
    where = memory if os.access(memory, os.W_OK) else Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="cual-postgres-", dir=where))
    try:
        server = Server(binaries, folder, OPTIONS | changes)
        try:
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server() -> Iterator[str]:
    """The address of a server without the name of a database: ``postgresql://cual:…@127.0.0.1:PORT/``."""
    with launched() as held:
        yield held.address


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
