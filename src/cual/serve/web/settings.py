"""How the service is run: its addresses, which of them are its own, and how much it takes in one piece."""

import ipaddress
import socket
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlsplit

from cual.errors import BadOption, NotAllowed

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Bytes and counts past which a request is refused. None of them is an option yet: nobody has asked."""

    json: int = 4 * MIB
    """Body of an ordinary request."""
    predict: int = 64 * MIB
    """Features in a .npy body; pictures, in one file or a form."""
    predict_json: int = 4 * MIB
    """Features in JSON, which take up to 13 times as much while they are read, and keep everybody waiting."""
    pictures: int = 256
    """Files of one request for predictions."""
    texts: int = 1024
    """Texts of one request for predictions, of so many characters each:"""
    text: int = 100_000
    numbers: int = 2**24
    """Features of one request for predictions: rows × width."""
    answers: int = 2**22
    """Rows × classes of one request for predictions."""
    memory: int = 512 * MIB
    """All requests for predictions that wait or are being answered: bodies, and numbers of the answers."""
    memory_person: int = 160 * MIB
    """The same for those of one person."""
    requests_person: int = 64
    agent: int = 2048 * MIB
    upload: int = 8192 * MIB
    """All files of one new pool together."""
    picture: int = 64 * MIB
    table: int = 256 * MIB
    """One CSV file of texts."""
    files: int = 100_000
    unpacked: int = 8192 * MIB
    """Arrays of one .npz file, unpacked."""
    database_seconds: float = 5.0
    """That a request waits for whoever locks the database before it is answered 503."""


@dataclass(frozen=True)
class Settings:
    """What `cual serve` was told.

    >>> Settings(port=9000).url, Settings(proxy="https://label.example.org").url
    ('http://127.0.0.1:9000', 'https://label.example.org')
    """

    host: str = "127.0.0.1"
    port: int = 8765
    names: tuple[str, ...] = ()
    """Further names that people reach the service by."""
    tls: bool = False
    proxy: str | None = None
    """The address that people type, where a proxy stands in front."""
    pages: bool = True
    """False leaves the page out: the API alone."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts that webhooks may reach although their addresses are private, or by plain http."""
    limits: Limits = field(default_factory=Limits)

    @property
    def secure(self) -> bool:
        """Whether browsers speak TLS, with us or with the proxy."""
        return self.tls or (self.proxy or "").startswith("https:")

    @property
    def url(self) -> str:
        """The address for people, without a slash at its end."""
        if self.proxy is not None:
            return self.proxy
        host = socket.gethostname() if _is_wildcard(self.host) else self.host
        return f"{'https' if self.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def knows_host(self, host: str) -> bool:
        """Whether a Host header names us.

        A page of somebody else whose name suddenly leads to us (DNS rebinding) comes with its own name.
        Addresses in numbers cannot be rebound; the port may be that of a tunnel.

        >>> [Settings().knows_host(h) for h in ("localhost:8765", "127.0.0.1:1", "evil.example:8765", "")]
        [True, True, False, False]
        """
        name = _name_of(host)
        if name in _LOOPBACK_NAMES or (name and name in (self.host.lower(), *map(str.lower, self.names))):
            return True
        if self.proxy is not None and name == _name_of(urlsplit(self.proxy).netloc):
            return True
        if is_loopback(self.host):
            return False
        return _is_address(name) or name in _names_of_this_machine()

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Whether a request with these Origin and Host headers comes from a page of ours.

        >>> Settings().is_own_origin("http://localhost:8765", "localhost:8765")
        True
        >>> Settings().is_own_origin("http://localhost:3000", "localhost:8765")
        False
        """
        if self.proxy is not None and origin.lower() == self.proxy.lower():
            return True
        scheme = "https" if self.tls else "http"
        return self.knows_host(host) and origin.lower() == f"{scheme}://{host.lower()}"


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def check_exposure(host: str, tls: bool, proxy: str | None, insecure: bool) -> None:
    """Refuse to let a network read tokens and answers, unless that was asked for.

    >>> check_exposure("127.0.0.1", tls=False, proxy=None, insecure=False)
    >>> check_exposure("0.0.0.0", tls=False, proxy=None, insecure=False)
    Traceback (most recent call last):
    cual.errors.NotAllowed: --host 0.0.0.0 would send tokens and answers over the network ...
    """
    if is_loopback(host) or tls or proxy is not None or insecure:
        return
    raise NotAllowed(
        f"--host {host} would send tokens and answers over the network unencrypted. Give --tls-cert and "
        "--tls-key, or --behind-proxy URL if a proxy adds TLS; --insecure does it all the same"
    )


def read_proxy(url: str) -> str:
    """The address of the proxy as browsers write it in an Origin header.

    >>> read_proxy("HTTPS://Label.Example.org:443/")
    'https://label.example.org'
    """
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in usual or not parts.hostname or port == -1 or parts.username or parts.query:
        raise BadOption(f"--behind-proxy takes an address such as https://label.example.org, not {url!r}")
    if parts.path not in ("", "/"):
        raise BadOption(f"--behind-proxy {url!r} has a path; the service needs a host name of its own")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{name}" + ("" if port in (None, usual[parts.scheme]) else f":{port}")


def _name_of(host: str) -> str:
    """The name in a Host header, without port and brackets; "" where it is none.

    >>> _name_of("[::1]:8765"), _name_of("Localhost:1"), _name_of("a b"), _name_of("a:b@c")
    ('::1', 'localhost', '', '')
    """
    if any(c in host for c in "/@?#\\ \t"):
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


@cache
def _names_of_this_machine() -> frozenset[str]:
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})  # the second may ask the network


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_wildcard(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified
