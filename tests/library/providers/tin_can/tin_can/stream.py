"""Tin Can's answer, a JSON value a line, as deltas."""

from __future__ import annotations

import msgspec

from belljar.errors import Garbled
from belljar.vendors.deltas import CallBegun, CallEnd, CallPiece, Decoder, Delta, Finish, Text, UsageDelta
from belljar.wire.responses import Usage

from .errors import reported


class TinCanDecoder(Decoder):
    def __init__(self, server: str) -> None:
        self._server = server
        self._held = b""
        self._calls = 0
        self._over = False

    def feed(self, data: bytes) -> list[Delta]:
        *lines, self._held = (self._held + data).split(b"\n")
        return [delta for line in lines if line for delta in self._take(line)]

    def close(self) -> list[Delta]:
        if not self._over:
            raise Garbled(f"{self._server} ended in the middle of the answer")
        return []

    def _take(self, line: bytes) -> list[Delta]:
        try:
            said = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise Garbled(f"{self._server} sent what cannot be read ({error})") from None
        if "oops" in said:
            raise reported(said["oops"], self._server)
        if "words" in said:
            return [Text(said["words"])]
        if "do" in said:
            index, self._calls = self._calls, self._calls + 1
            begun = CallBegun(index, said["as"], said["do"])
            return [begun, CallPiece(index, said["with"]), CallEnd(index, said["with"])]
        self._over = True
        heard, spoken = said["over"]
        usage = Usage(input_tokens=heard, output_tokens=spoken, total_tokens=heard + spoken)
        return [Finish("calls" if self._calls else "stop"), UsageDelta(usage)]
