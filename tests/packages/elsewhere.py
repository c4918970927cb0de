"""Another system, as far as Linux can stand in: what Windows lacks is gone for `cual`; files behave as there.

    python -X warn_default_encoding tests/packages/elsewhere.py SCRIPT …

Packages of others know Windows themselves, so only what `cual` imports and calls is changed:

- modules of POSIX cannot be imported, and names that only POSIX has are gone from `os`, `signal`, `socket`;
- text files without an encoding are an error;
- open or mapped files are neither replaced nor removed, folders are not opened, none takes another's place,
  names have none of the characters that Windows refuses, and symbolic links need a privilege.
"""

import builtins
import os
import runpy
import signal
import socket
import sys
import threading
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = """fcntl grp posix posixpath pty pwd readline resource syslog termios tty curses"""
NAMES = {
    "os": """O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC O_DSYNC O_TMPFILE PRIO_PROCESS RTLD_NOW
    SCHED_OTHER WEXITSTATUS WIFEXITED WIFSIGNALED WNOHANG WTERMSIG chflags chown chroot confstr ctermid
    eventfd fchdir fchmod fchown fork forkpty fpathconf fstatvfs getegid geteuid getgid getgroups
    getloadavg getpgid getpgrp getpriority getsid getuid getxattr initgroups killpg lchown lockf major
    makedev memfd_create minor mkfifo mknod nice openpty pathconf pipe2 posix_fadvise posix_fallocate
    posix_spawn pread preadv pwrite pwritev register_at_fork sched_getaffinity sched_setaffinity
    sched_yield sendfile setegid seteuid setgid setgroups setpgid setpriority setsid setuid setxattr
    statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 waitid""",
    "signal": """ITIMER_REAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP
    SIGTSTP SIGUSR1
    SIGUSR2 SIG_BLOCK SIG_UNBLOCK SIG_SETMASK alarm getitimer pause pthread_kill pthread_sigmask
    setitimer siginterrupt sigpending sigwait""",
    "socket": """AF_UNIX SO_REUSEPORT sethostname""",
    "time": """tzset clock_gettime clock_settime clock_getres CLOCK_MONOTONIC""",
}
"""What is gone, by module."""
REFUSED = frozenset('<>:"|?*')


class Without(ModuleType):
    """A module in which some names are not."""

    def __init__(self, module: ModuleType, gone: frozenset[str]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(_module=module, _gone=gone)

    def __getattr__(self, name: str) -> Any:
        if self.__name__ == "os" and name == "name":
            return "nt"
        if name in self._gone:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on this system")
        return getattr(self._module, name)


CHANGED = {m.__name__: Without(m, frozenset(NAMES[m.__name__].split())) for m in (os, signal, socket, time)}


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """`__import__`, for modules of cual as it would be elsewhere."""
    ours = globals is not None and str(globals.get("__name__", "")).partition(".")[0] == "cual"
    if ours and level == 0:
        if name.partition(".")[0] in MODULES.split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in CHANGED:
            return CHANGED[name]
    return _real_import(name, globals, locals, fromlist, level)


def _in_use(path: str) -> bool:
    """Whether this process has a file open or mapped."""
    real = os.path.realpath(path)
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == real:
                return True
        except OSError:
            continue
    return any(
        line.rstrip("\n").endswith(f" {real}") for line in Path("/proc/self/maps").open(encoding="utf-8")
    )


_looking = threading.local()


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    """What Windows says to operations on files."""
    if getattr(_looking, "now", False) or not event.startswith(("open", "os.")):
        return
    _looking.now = True
    try:
        _check_file(event, arguments)
    finally:
        _looking.now = False


def _check_file(event: str, arguments: tuple[Any, ...]) -> None:
    path = os.fsdecode(arguments[0]) if arguments and isinstance(arguments[0], str | bytes | Path) else None
    if event == "open" and path is not None:
        flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
        if os.path.isdir(path) and _called_by_cual() and sys._getframe(2).f_globals["__name__"] != "tempfile":
            raise PermissionError(13, "Permission denied: it is a folder", path)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _check_name(path)
    elif event == "os.mkdir" and path is not None:
        _check_name(path)
    elif event == "os.rename" and path is not None:
        target = os.fsdecode(arguments[1])
        _check_name(target)
        if os.path.isdir(target):
            raise PermissionError(13, "Access is denied: no folder takes another's place", target)
        for file in (path, target):
            if os.path.isfile(file) and _in_use(file):
                raise PermissionError(13, "The process cannot access the file: it is being used", file)
    elif event == "os.remove" and path is not None and _called_by_cual() and _in_use(path):
        raise PermissionError(13, "The process cannot access the file: it is being used", path)
    elif event == "os.symlink":
        error = OSError(22, "A required privilege is not held by the client", os.fsdecode(arguments[1]))
        error.winerror = 1314  # type: ignore[attr-defined]
        raise error


def _check_name(path: str) -> None:
    name = os.path.basename(path)
    if name not in (".", "..") and (REFUSED & set(name) or name.endswith((".", " "))):
        raise OSError(22, "The file name is not good on Windows", path)


def _called_by_cual() -> bool:
    """Whether the nearest caller that is not of Python itself is ours."""
    frame = sys._getframe(3)
    standard = os.path.dirname(os.__file__)
    while frame is not None:
        file = frame.f_code.co_filename
        if "site-packages" in file or not file.startswith((standard, "<frozen")):
            return frame.f_globals.get("__name__", "").partition(".")[0] == "cual"
        frame = frame.f_back
    return False


if __name__ == "__main__":
    _real_import = builtins.__import__
    builtins.__import__ = _import
    sys.addaudithook(_check)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"cual(\.|$)")
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
