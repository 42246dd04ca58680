"""What goes wrong with PostgreSQL: whose fault it is, whether to try again, in words without the password."""

from __future__ import annotations

import ssl

import asyncpg
from asyncpg import exceptions as pg

from belljar.database_address import DatabaseAddress
from belljar.errors import BadSettings, BelljarError, InvalidRequest, OperatorError, StoreUnavailable

KINDS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""All that comes from the driver."""
_LOST = (
    OSError,  # timeouts too
    pg.PostgresConnectionError,
    pg.CannotConnectNowError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.IdleInTransactionSessionTimeoutError,
    pg.ReadOnlySQLTransactionError,  # what was the primary is a standby now
    pg.TooManyConnectionsError,
    pg.ProtocolViolationError,  # a pooler that gave up on its server
    pg.InternalClientError,  # an answer that was cut off in its middle
)
_AGAIN = (pg.DeadlockDetectedError, pg.SerializationError)
_SETTINGS = (
    pg.InvalidAuthorizationSpecificationError,
    pg.InvalidCatalogNameError,
    pg.InsufficientPrivilegeError,
    pg.ClientConfigurationError,
    ssl.SSLCertVerificationError,
)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is of no more use; what was asked last may have been done."""
    if isinstance(error, pg.InterfaceError):  # a connection that is closed; but not a value that cannot be sent
        return not isinstance(error, ValueError) and not isinstance(error, pg.ClientConfigurationError)
    return isinstance(error, _LOST)


def is_undone(error: BaseException) -> bool:
    """Whether it was given up for somebody else's sake, and may go well the next time."""
    return isinstance(error, _AGAIN)


def is_settings(error: BaseException) -> bool:
    """Whether a connection was refused for a reason that does not go away by itself."""
    return isinstance(error, _SETTINGS)


def check_files(address: DatabaseAddress) -> None:
    """`BadSettings` names the one that cannot be read."""
    for name, path in address.files:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise BadSettings(
                f"database: {name} in its address names {path}, which cannot be read ({error.strerror}); "
                "name a file that is there"
            ) from None


def unavailable(address: DatabaseAddress, error: BaseException | None, after: float = 2.0) -> StoreUnavailable:
    why = f" ({_reason(error)})" if error is not None else ""
    return StoreUnavailable(f"the database at {address} does not answer{why}; try again in a moment", after=after)


def of_settings(address: DatabaseAddress, error: BaseException) -> BadSettings:
    """What has to be changed before a connection can be made at all."""
    match error:
        case pg.InvalidCatalogNameError():
            remedy = "make it with createdb, or name another"
        case pg.InvalidAuthorizationSpecificationError():
            remedy = "check the user and the password, which may be in BELLJAR_DATABASE, database_file or ~/.pgpass"
        case pg.InsufficientPrivilegeError():
            remedy = "let the user create the schema belljar: GRANT CREATE ON DATABASE …, or make the user its owner"
        case OSError():
            remedy = "check sslmode and sslrootcert in its address, and the server's certificate"
        case _:
            remedy = "check its address"
    return BadSettings(f"database: the one at {address} cannot be used: {_reason(error)}; {remedy}")


def explain(address: DatabaseAddress, error: Exception) -> Exception:
    """The error to raise for this one: ours, if it is PostgreSQL's."""
    match error:
        case BelljarError():
            return error
        case pg.DataError() | pg.InterfaceError() if isinstance(
            error.__cause__, TypeError | ValueError | OverflowError
        ):
            return error.__cause__  # the driver's words have the value in them, which may be anything
        case pg.CharacterNotInRepertoireError() | pg.UntranslatableCharacterError():
            return InvalidRequest("a text has the character U+0000 in it, which cannot be stored; leave it out")
        case pg.DiskFullError():
            return OperatorError(f"the disk of the database at {address} is full; free some space there")
        case pg.QueryCanceledError() | pg.LockNotAvailableError() | pg.InsufficientResourcesError():
            return unavailable(address, error)
        case _ if is_lost(error):
            return unavailable(address, error)
        case asyncpg.PostgresError() | asyncpg.InterfaceError():
            return OperatorError(f"the database at {address}: {_reason(error)}")
        case _:
            return error


def _reason(error: BaseException) -> str:
    """In words that name no secret: none of PostgreSQL's do, and a `DatabaseAddress` hides none from the driver."""
    match error:
        case asyncpg.PostgresError() | pg.ClientConfigurationError():
            return str(error).partition("\n")[0] or type(error).__name__
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case TimeoutError():
            return "no answer in time"
        case OSError():
            why = error.strerror or "no connection"
            return why if error.filename is None else f"{error.filename}: {why}"
        case _:
            return "the connection was lost"
