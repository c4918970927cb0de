"""Addresses that visitors come from: how they are written, and which count as one. Nobody is judged here."""

import ipaddress


def plain(host: str) -> str:
    """An address as everybody writes it: a socket for IPv4 and IPv6 (on ``::``) gives IPv4 another form.

    >>> plain("::ffff:203.0.113.5"), plain("2001:DB8:0::5"), plain("testclient")
    ('203.0.113.5', '2001:db8::5', 'testclient')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:64]
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def network_of(host: str) -> str:
    """What counts as one address: of IPv6 everybody has 2**64.

    >>> network_of("203.0.113.5"), network_of("::ffff:203.0.113.5")
    ('203.0.113.5', '203.0.113.5')
    >>> network_of("2001:db8::5"), network_of("::1"), network_of("::ffff:127.0.0.1")
    ('2001:db8::/64', '::1', '127.0.0.1')
    """
    written = plain(host)
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        return written
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return written
    return str(ipaddress.IPv6Network((address, 64), strict=False))
