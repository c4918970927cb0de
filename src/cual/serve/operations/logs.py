"""How the service writes its log: one JSON object per line, or text for people. Secrets never get that far."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

LogFormat = Literal["json", "text"]
_SECRET = re.compile(
    r"cual_[A-Za-z0-9_-]{20,}|(?<=token=)[^&\s\"']+|(?<=[Bb]earer )\S+|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"
)


def without_secrets(text: str) -> str:
    """Tokens and passwords blotted out, should one get into a message.

    >>> without_secrets("GET /sign-in?token=abc postgresql://me:geheim@db/cual")
    'GET /sign-in?token=*** postgresql://***@db/cual'
    """
    return _SECRET.sub("***", text)


class JsonLines(logging.Formatter):
    """One JSON object per record; what a caller gave as ``extra={"fields": {…}}`` becomes part of it.

    >>> record = logging.LogRecord("cual", logging.INFO, "", 0, "%d jobs", (3,), None)
    >>> record.fields = {"worker": 7}
    >>> row = json.loads(JsonLines().format(record))
    >>> row["message"], row["level"], row["worker"]
    ('3 jobs', 'info', 7)
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        row: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        row |= {"message": record.getMessage(), **getattr(record, "fields", {})}
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(row, ensure_ascii=True, default=str))


class Lines(logging.Formatter):
    """A line for people. What came from outside is written so that it cannot begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        fields: dict[str, Any] = getattr(record, "fields", {})
        extra = " ".join(f"{k}={_plain(v)}" for k, v in fields.items())
        message = _plain(record.getMessage())
        line = f"{at} {record.levelname.lower():7} {message}{' ' if extra else ''}{extra}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return without_secrets(line)


def set_up(format: LogFormat, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send everything that is logged in this process to stderr in one format."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else Lines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").disabled = True  # it would write down query strings; we log requests
    for name in ("httpx", "httpcore", "engineio", "socketio"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _plain(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() else repr(text)
