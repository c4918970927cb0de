"""One delivery of a webhook: where it may go, and how it is sent. When, and how often, is in `delivering`.

An address is set by an administrator, but where it leads is decided by whoever runs its name server, each time
anew. So names are resolved here, all that comes of it is checked, and the connection goes to what was checked.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from cual.errors import NotAllowed
from cual.serve.web.settings import is_loopback

SECONDS = 10.0
"""That a connection, or a piece of an answer, may take."""
DEADLINE = 30.0
"""Seconds that all of it may take."""
MOST_ANSWER = 64 * 1024
"""Bytes of an answer that are read; nothing is done with them."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def post(url: str, body: bytes, headers: Mapping[str, str], hosts: Collection[str] = ()) -> int:
    """Send a body, and tell the status. Redirects are not followed: they are statuses like others.

    Parameters
    ----------
    hosts
        Names and addresses that may be reached although they are private or not encrypted.
    """
    parts = urlsplit(url)
    name, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    address = reachable(parts.scheme, name, port, hosts)
    connection = _Connection(name, port, address, parts.scheme == "https")
    timer = threading.Timer(DEADLINE, connection.cut)
    timer.daemon = True
    timer.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        own = {"Host": connection.called, "Connection": "close"}
        connection.request("POST", target, body, {**headers, **own})
        answer = connection.getresponse()
        answer.read(MOST_ANSWER)
        if connection.was_cut:  # what was read so far may look whole
            raise OSError("it takes too long to answer")
        return answer.status
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"the answer cannot be read: {type(error).__name__}") from error
    finally:
        timer.cancel()
        connection.close()


def reachable(scheme: str, name: str, port: int, hosts: Collection[str] = ()) -> str:
    """The address that a name leads to, if it may be sent to."""
    try:
        found = [entry[4][0] for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]
    except OSError:
        raise OSError("its name leads nowhere") from None
    addresses = [ipaddress.ip_address(str(address).partition("%")[0]) for address in found]
    if not addresses:
        raise OSError("its name leads nowhere")
    if name.lower() in {host.lower() for host in hosts}:
        return str(addresses[0])
    if is_loopback(name):
        if all(address.is_loopback for address in addresses):
            return str(addresses[0])
        raise NotAllowed("a name of this machine leads elsewhere")
    if scheme != "https":
        raise NotAllowed("webhooks are sent by https, except to this machine")
    if not all(is_public(address) for address in addresses):
        raise NotAllowed("the name leads to a private address, where webhooks are not sent to")
    return str(addresses[0])


def is_public(address: _Address) -> bool:
    """Whether an address is neither private nor of this machine, and hides none that is.

    >>> [is_public(ipaddress.ip_address(a)) for a in ("93.184.215.14", "10.0.0.1", "169.254.169.254", "::1")]
    [True, False, False, False]
    >>> is_public(ipaddress.ip_address("::ffff:192.168.0.1")), is_public(ipaddress.ip_address("64:ff9b::a00:1"))
    (False, False)
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return is_public(inner)
        if address in _NAT64:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


class _Connection(http.client.HTTPConnection):
    """To an address that was checked; the certificate is checked for the name."""

    def __init__(self, name: str, port: int, address: str, encrypted: bool) -> None:
        usual = port == (443 if encrypted else 80)
        host = f"[{name}]" if ":" in name else name
        super().__init__(name, port, timeout=SECONDS)
        self.called = host if usual else f"{host}:{port}"
        self._name, self._address, self._encrypted = name, address, encrypted
        self.was_cut = False

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), SECONDS)
        if self._encrypted:
            self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self._name)
        else:
            self.sock = plain

    def cut(self) -> None:
        """End it now, whoever waits for it."""
        self.was_cut = True
        sock = self.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return
