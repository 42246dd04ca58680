"""Attacks on the network: there must be none, not even the host's loopback."""

from __future__ import annotations

from belljar.sandbox.local.attacks.attack import Attack

_CONNECT = """
def connect(address, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(2)
        sock.connect(address)
        return sock.getpeername()
"""

ATTACKS = (
    Attack(
        "TCP to the host's loopback",
        "Services that listen on the host's 127.0.0.1, Belljar itself among them, could be called.",
        _CONNECT + "refused(lambda: connect(('127.0.0.1', HOST['port'])), 'ECONNREFUSED', 'ENETUNREACH')",
        provable=True,
    ),
    Attack(
        "UDP to the host's loopback",
        "Datagrams would reach the host.",
        """
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return sock.sendto(b"hello", ("127.0.0.1", HOST["udp"]))
refused(send, "EPERM")
""",
        provable=True,
    ),
    Attack(
        "the host's own address",
        "The host could be called by its address on the network.",
        _CONNECT + "refused(lambda: connect((HOST['address'], HOST['port'])), 'ECONNREFUSED', 'ENETUNREACH')",
    ),
    Attack(
        "the metadata service",
        "The cloud's metadata address would give out the machine's credentials.",
        _CONNECT + "refused(lambda: connect(('169.254.169.254', 80)), 'ENETUNREACH')",
    ),
    Attack(
        "the internet",
        "Data could be sent anywhere.",
        _CONNECT
        + """
refused(lambda: connect(("1.1.1.1", 443)), "ENETUNREACH")
refused(lambda: connect(("10.0.0.1", 80)), "ENETUNREACH")
refused(lambda: connect(("2606:4700:4700::1111", 443), socket.AF_INET6), "ENETUNREACH", "EADDRNOTAVAIL")
""",
    ),
    Attack(
        "datagrams to the internet",
        "Data could leave by UDP, DNS or broadcast.",
        """
def send(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        return sock.sendto(b"x", address)
for address in (("8.8.8.8", 53), ("255.255.255.255", 9), ("224.0.0.251", 5353), ("10.255.255.255", 9)):
    refused(lambda: send(socket.AF_INET, address), "EPERM")
for address in (("2001:4860:4860::8888", 53), ("ff02::fb", 5353)):
    refused(lambda: send(socket.AF_INET6, address), "EPERM")
""",
    ),
    Attack(
        "names",
        "Names would be resolved, which is a way out for data.",
        """
try:
    broken(socket.getaddrinfo("canary.example.com", 443))
except socket.gaierror as error:
    held(error.strerror)
""",
    ),
    Attack(
        "network interfaces",
        "Something other than the sandbox's own loopback would be attached.",
        """
with open("/proc/net/dev") as file:
    names = [line.split(":")[0].strip() for line in file if ":" in line]
judge([name for name in names if name != "lo"], "interface")
with open("/proc/net/route") as file:
    judge(file.read().splitlines()[1:], "route")
""",
    ),
    Attack(
        "configure the network",
        "Code could bring up a link of its own.",
        """
import fcntl
with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
    down = struct.pack("16sH14x", b"lo", 0)
    refused(lambda: fcntl.ioctl(sock, 0x8914, down), "EPERM")                                     # SIOCSIFFLAGS
    refused(lambda: fcntl.ioctl(sock, 0x8916, struct.pack("16sHH4s8x", b"lo", 2, 0, bytes(4))), "EPERM")  # SIOCSIFADDR
    refused(lambda: fcntl.ioctl(sock, 0x89A0, b"belljar0" + bytes(8)), "EPERM", "ENOPKG")         # SIOCBRADDBR
""",
    ),
    Attack(
        "abstract socket of the host",
        "Services that listen on abstract sockets (X11, D-Bus, container tools) could be called.",
        _CONNECT + "refused(lambda: connect(HOST['abstract'], socket.AF_UNIX), 'ECONNREFUSED', 'EPERM')",
        provable=True,
    ),
    Attack(
        "socket file of the host",
        "Services that listen on a socket file (Docker) could be called.",
        _CONNECT + "refused(lambda: connect(HOST['socket'], socket.AF_UNIX), 'ENOENT')",
        provable=True,
    ),
)
