"""Pictures and texts in the body of a request: read as they arrive, refused early, never decoded here.

What a picture is, its first bytes say, never its name or what the request calls it.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

from fastapi import HTTPException, Request
from pydantic_core import from_json
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from cual.encoders.base import Kind
from cual.errors import BadFeatures, BadFile, BadImage, TooLarge
from cual.serve.web.settings import Limits

PICTURES = ("image/jpeg", "image/png", "image/webp")
FORM = "multipart/form-data"
PLAIN = "text/plain"
COST = 2
"""Bytes that a byte of a picture takes: here, and in the process that encodes."""
_MOST_HEADERS = 8192  # bytes of the headers of one part of a form
_FORM = 'the body is an object with the one field "texts", a list of texts'
_TEXTS = re.compile(rb'\s*\{\s*"texts"')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


@dataclass(frozen=True)
class Raw:
    """What somebody sent to be encoded."""

    kind: Kind
    items: list[bytes]
    """Files of pictures, or texts in UTF-8."""
    single: bool
    """Whether it was sent as one thing: then what is wrong with it is wrong with the request."""
    names: tuple[bytes, ...] = ()
    """What the files of a form are called, by whoever sent them: anything."""


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_raw(request: Request) -> bool:
    """Whether the body holds pictures or a text; texts in JSON are known when they are here."""
    kind = content_type(request)
    if kind.startswith("image/") and kind not in PICTURES:
        raise HTTPException(415, f"pictures are taken as {', '.join(PICTURES)}")
    return kind in (*PICTURES, FORM, PLAIN)


async def read(request: Request, limits: Limits) -> Raw:
    """The pictures or the text of a request."""
    kind = content_type(request)
    if kind == FORM:
        form = await _form(request, limits)
        return Raw("image", [bytes(file) for file in form.files], False, tuple(form.names))
    if kind in PICTURES:
        return Raw("image", [await _body(request, limits.predict, "a picture")], single=True)
    return Raw(
        "text", [text_item(_decoded(await _body(request, 4 * limits.text, "a text")), limits)], single=True
    )


async def _body(request: Request, limit: int, what: str) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise TooLarge(f"{what} is taken up to {limit} bytes")
    if not body:
        raise BadFile("the body is empty")
    return bytes(body)


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise BadFile("the text is not UTF-8") from None


def check_picture(item: bytes) -> BadImage | None:
    """What is wrong with a file by its first bytes, if anything is.

    >>> check_picture(b"\\xff\\xd8\\xff\\xe0..."), str(check_picture(b"GIF89a..."))
    (None, 'is no JPEG, PNG or WebP')
    """
    if item.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")) or (item[:4], item[8:12]) == (b"RIFF", b"WEBP"):
        return None
    return BadImage("is no JPEG, PNG or WebP")


# -- texts -----------------------------------------------------------------------------------------------------


def holds_texts(body: bytes | bytearray) -> bool:
    """Whether a JSON body is meant to hold texts, and not features.

    >>> holds_texts(b'{ "texts": []}'), holds_texts(b'{"features": [[1]]}')
    (True, False)
    """
    return _TEXTS.match(body) is not None


def read_texts(body: bytes | bytearray, limits: Limits) -> Raw:
    """Texts in JSON.

    >>> read_texts(b'{"texts": ["a [text]", ""]}', Limits()).items
    [b'a [text]', b'']
    """
    # what is between the texts is looked at before anything is made of it: lists in lists take much memory
    between = _STRING.sub(b"", body)
    if between.count(b"[") > 1 or between.count(b"{") > 1:
        raise BadFeatures(_FORM)
    if between.count(b",") >= limits.texts:
        raise TooLarge(f"at most {limits.texts} texts are taken at a time; send them in parts")
    try:
        told: Any = from_json(body)
    except ValueError as error:
        raise BadFeatures(f"the body is no JSON: {error}") from None
    if not isinstance(told, dict) or list(cast(dict[str, Any], told)) != ["texts"]:
        raise BadFeatures(_FORM)
    texts: Any = told["texts"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in cast(list[Any], texts)):
        raise BadFeatures(_FORM)
    if not texts:
        raise BadFeatures("texts holds no texts")
    return Raw("text", [text_item(text, limits) for text in cast(list[str], texts)], single=False)


def text_item(text: str, limits: Limits) -> bytes:
    """A text as it is sent on."""
    if len(text) > limits.text:
        raise TooLarge(f"a text is taken up to {limits.text} characters; this one has {len(text)}")
    return text.encode()


# -- forms -----------------------------------------------------------------------------------------------------


async def _form(request: Request, limits: Limits) -> "_Form":
    """A form, with its files in their order."""
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if not boundary:
        raise BadFile("files are sent as multipart/form-data with a boundary")
    form = _Form(limits)
    try:
        parser = MultipartParser(boundary, form.callbacks())  # pyright: ignore[reportArgumentType]
        async for part in request.stream():
            parser.write(part)
        parser.finalize()
    except FormParserError:
        raise BadFile("the form is cut off or not multipart/form-data") from None
    if not form.ended:
        raise BadFile("the form is cut off")
    if not form.files:
        raise BadFile("the form has no files")
    return form


class _Form:
    """What the parser calls while a form comes in. Files stay in memory: the body has a limit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.files: list[bytearray] = []
        self.names: list[bytes] = []
        self.ended = False
        self._name, self._value = bytearray(), bytearray()
        self._disposition = b""
        self._headers = 0

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._disposition, self._headers = b"", 0

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]
        self._count(end - start)

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._count(end - start)

    def _count(self, n: int) -> None:
        self._headers += n
        if self._headers > _MOST_HEADERS:
            raise TooLarge(f"the headers of a file take at most {_MOST_HEADERS} bytes")

    def _header_end(self) -> None:
        if bytes(self._name).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._name, self._value = bytearray(), bytearray()

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"filename" not in options:
            raise BadFile("the form holds a field that is no file; send pictures, each as a file")
        if len(self.files) >= self._limits.pictures:
            raise TooLarge(f"at most {self._limits.pictures} pictures are taken at a time; send them in parts")
        self.files.append(bytearray())
        self.names.append(options[b"filename"])

    def _data(self, data: bytes, start: int, end: int) -> None:
        self.files[-1] += data[start:end]

    def _end(self) -> None:
        self.ended = True
