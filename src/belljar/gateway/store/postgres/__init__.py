"""Records in PostgreSQL, which any number of gateways on any number of machines share."""

from __future__ import annotations

from belljar.errors import BadSettings

try:
    import asyncpg  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "asyncpg":
        raise
    raise BadSettings("database: the asyncpg package is not installed; run: pip install 'belljar[postgres]'") from None
