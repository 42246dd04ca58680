"""Tin Can's client: it has no SDK, so what is posted goes over plain HTTP."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from belljar.config import ApiSettings
from belljar.errors import InvalidRequest, ProviderError
from belljar.providers import vendor_settings
from belljar.providers.dialect_client import DialectClient
from belljar.providers.failures import ClientError, code_of
from belljar.providers.types import ClientTurn
from belljar.providers.uploads import FileReference
from belljar.wire.tools import CodeInterpreterTool


class TinCanError(ClientError):
    """Tin Can failed, or found fault."""

    vendor = "Tin Can"
    key = "TIN_CAN_API_KEY"


class TinCanClient(DialectClient):
    provider = "tin_can"
    error = TinCanError

    def __init__(
        self, *, settings: ApiSettings, client: Any, api_key: str | None, base_url: str | None, **said: Any
    ) -> None:
        super().__init__(settings=settings, **said)
        self._key = api_key or vendor_settings.key_for(self.provider, settings)
        self._address = base_url or vendor_settings.address_for(self.provider, settings)

    def _post(self, body: bytes) -> Generator[bytes, None, None]:
        url = self._address + self._dialect.path.replace("{model}", self.get_model())
        headers = {"content-type": "application/json", **self._dialect.headers(self._key)}
        with urlopen(Request(url, body, headers), timeout=60) as answer:
            yield from answer

    def _failure(self, error: BaseException) -> ClientError:
        if isinstance(error, HTTPError):
            headers = {name.lower(): value for name, value in error.headers.items()}
            error = self._dialect.fault(error.code, headers, error.read())
        if isinstance(error, ProviderError):
            return TinCanError.of(code_of(error), str(error), error, error)
        return TinCanError.of("CONNECTION_ERROR" if isinstance(error, OSError) else "UNKNOWN_ERROR", str(error), error)

    def _code_tool(self, turn: ClientTurn) -> CodeInterpreterTool:
        raise InvalidRequest("code_execution: Tin Can runs no code", param="code_execution")

    def _upload(self, path: Path) -> FileReference:
        raise InvalidRequest("files: Tin Can takes no files", param="files")
