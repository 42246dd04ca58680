"""Server-sent events cut into the payloads of their data lines: bytes as they arrive in, whatever their split."""

from __future__ import annotations


class Lines:
    """One body. One that is JSON from its first byte, and no stream at all, comes out whole at `close`."""

    __slots__ = ("_after_cr", "_begun", "_held", "_payload", "_whole")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        """The line that has not ended."""
        self._payload = b""
        """Of the event that has not ended."""
        self._begun = False
        self._whole = False
        self._after_cr = False

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that these bytes complete."""
        if not self._begun:
            data = data.lstrip()
            self._begun = bool(data)
            self._whole = data.startswith((b"{", b"["))
        if not self._whole:
            data = self._with_plain_ends(data)
        self._held.append(data)
        if self._whole or b"\n" not in data:
            return []
        body = b"".join(self._held)
        plain, rest = _plain(body) if not self._payload else ([], b"")
        if plain:
            self._held = [rest]
            return plain
        *lines, rest = body.split(b"\n")
        self._held = [rest]
        payloads = []
        payload = self._payload
        for line in lines:
            if line.startswith(b"data: "):
                payload = payload + b"\n" + line[6:] if payload else line[6:]
            elif line:
                payload += _other(line)
            elif payload:
                payloads.append(payload)
                payload = b""
        self._payload = payload
        return payloads

    def close(self) -> list[bytes]:
        """The body ended: what was begun is complete, with a blank line after it or not."""
        if self._whole:
            return [b"".join(self._held)]
        return self.feed(b"\n\n")

    def _with_plain_ends(self, data: bytes) -> bytes:
        """Lines may end in LF, CR or both; a CR at the end of one read may belong to the LF that begins the next."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" not in data:
            return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _plain(body: bytes) -> tuple[list[bytes], bytes]:
    """The payloads, and what is left, of events that are one data line each, as nearly all are; of others none.

    Without a look at each line: a stream of tokens is mostly these.
    """
    end = body.rfind(b"\n\n")
    if end < 0 or not body.startswith(b"data: "):
        return [], b""
    payloads = body[6:end].split(b"\n\ndata: ")
    if body.count(b"\n", 0, end) != 2 * (len(payloads) - 1) or not all(payloads):
        return [], b""
    return payloads, body[end + 2 :]


def _other(line: bytes) -> bytes:
    """What a line that is not plainly data adds to the payload."""
    if line.startswith(b"data:"):
        return line[5:]
    if line.startswith(b"error:"):  # a field that only llama.cpp had, until late 2025
        return b'{"error":%b}' % line[6:]
    return b""
