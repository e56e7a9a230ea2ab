"""Which addresses only this machine can reach. Not in the guard, because the small parent of the server asks, too."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether a bind address can be reached from this machine only."""
    return host == "localhost" or (is_ip(host) and ip_address(host.strip("[]")).is_loopback)


def is_ip(name: str) -> bool:
    """Whether a host name is an address, in brackets or not."""
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
