"""A container that is made when it is first needed and replaced when it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from belljar.adapters.openai.config import ContainerConfig
from belljar.adapters.openai.container_files import ContainerFiles, unpacks
from belljar.adapters.sdk import within
from belljar.errors import ContainerExpiredError, DeadlineExceededError, NotFound, TooLarge
from belljar.files.sdk_errors import of_openai_kind
from belljar.runtime import Deadline

if TYPE_CHECKING:
    from openai import OpenAI

T = TypeVar("T")
NAME = "belljar-workspace"
_PAGE = 100
_OVER = ("expired", "deleted")

Fill: TypeAlias = Callable[["Filling"], object]


class Filling(NamedTuple):
    """A container that is about to be used."""

    files: ContainerFiles
    found: bool
    """It is one of earlier turns, and has what they left in it."""
    lost: ContainerFiles | None
    """What it takes the place of. Some servers still give the files of a container that has expired."""


class ContainerManager:
    """`fill` puts into a container what should be in it, before anybody uses it.

    Threads may share a manager; they use the container one after the other.
    """

    def __init__(
        self,
        client: OpenAI | Callable[[], OpenAI],
        config: ContainerConfig,
        fill: Fill,
        *,
        name: str = NAME,
    ) -> None:
        self._given = client
        self._config = config
        self._fill = fill
        self._name = name
        self.lock = RLock()
        """Held by whoever uses the container."""
        self._unpacking: bool | None = None
        self._files: ContainerFiles | None = None
        self._id: str | None = None
        self._deadline: Deadline | None = None
        """Of what is being done."""

    @property
    def container_id(self) -> str | None:
        return self._id

    def ensure(self, *, deadline: Deadline | None = None) -> str:
        """The id of a container that is there, with the files in it. Asks the server every time: it may be gone.

        Nothing of it waits beyond the deadline; a container that is not whole by then is left to expire.
        """
        with self._until(deadline), translate_errors():
            if self._id is None:
                self._make_container()
            elif (over := self._over()) is not None:
                self._replace(over)
            assert self._id is not None
            return self._id

    def use(self, act: Callable[[ContainerFiles], T], *, heal: bool = True) -> T:
        """Let `act` work on the files. If the container turns out to be gone, it works once more, on another one."""
        import openai

        with self.lock, translate_errors():
            files = self._files if self._files is not None else self._make_container()
            try:
                return act(files)
            except openai.APIStatusError as error:
                if self._over() is None:
                    raise
                if not heal:
                    raise self._loss_error(error, "and what it held is lost") from error
                files = self._replace(error)
            try:
                return act(files)
            except openai.APIStatusError as error:
                if self._over() is None:
                    raise
                raise self._loss_error(error, "and so has the one in its place") from error

    def delete(self) -> None:
        """Take the container away now, rather than leave it to expire."""
        import openai

        with self.lock, translate_errors(), suppress(openai.NotFoundError):
            if self._id is not None:
                self._client().containers.delete(self._id)

    # -- inside --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _until(self, deadline: Deadline | None) -> Iterator[None]:
        """The lock, if it is to be had in time, and the deadline over all requests."""
        if not self.lock.acquire(timeout=-1 if deadline is None else max(deadline.remaining().total_seconds(), 0)):
            raise DeadlineExceededError("the deadline passed while the container was in use elsewhere")
        before, self._deadline = self._deadline, deadline
        try:
            yield
        finally:
            self._deadline = before
            self.lock.release()

    def _client(self) -> OpenAI:
        """For one request."""
        if callable(self._given):
            self._given = self._given()
        return within(self._given, self._deadline)

    def _replace(self, cause: Exception) -> ContainerFiles:
        lost = self._loss_error(cause, "and another could not be made")
        try:
            return self._make_container(lost=self._files)
        except DeadlineExceededError:
            raise
        except Exception as error:
            raise ContainerExpiredError(
                f"{lost}: {error}", container_id=lost.container_id, original_error=error
            ) from error

    def _make_container(self, *, lost: ContainerFiles | None = None) -> ContainerFiles:
        found = self._active() if self._config.mode == "auto" and lost is None else None
        id = found or self._client().containers.create(name=self._name, memory_limit=self._config.memory_limit).id
        try:
            if self._unpacking is None:
                self._unpacking = unpacks(self._client, id)
            files = ContainerFiles(self._client, id, unpacking=self._unpacking)
            self._fill(Filling(files, found is not None, lost))
        except BaseException:
            if found is None:
                with suppress(Exception):  # what went wrong before is what the caller should hear
                    self._client().containers.delete(id)
            raise
        self._id, self._files = id, files
        return files

    def _active(self) -> str | None:
        """The newest of earlier turns: under this name, as large as it should be, and not expired."""
        query = {"name": self._name}
        for one in self._client().containers.list(limit=_PAGE, order="desc", extra_query=query):
            same = (one.name, one.memory_limit) == (self._name, self._config.memory_limit)
            if same and one.status not in _OVER:
                return one.id
        return None

    def _over(self) -> Exception | None:
        """Why the container cannot be used any more; None where it can."""
        import openai

        assert self._id is not None
        try:
            status = self._client().containers.retrieve(self._id).status
        except openai.NotFoundError as error:
            return error
        return NotFound(f"container {self._id} is {status}") if status in _OVER else None

    def _loss_error(self, error: Exception, what: str) -> ContainerExpiredError:
        assert self._id is not None
        return ContainerExpiredError(
            f"container {self._id} has expired or is gone, {what}", container_id=self._id, original_error=error
        )


@contextmanager
def translate_errors() -> Iterator[None]:
    """Around calls of the SDK: what it raises comes out in our tree of errors."""
    try:
        yield
    except Exception as error:
        found = translate_error(error)
        if found is error:
            raise
        raise found from error


def translate_error(error: Exception) -> Exception:
    """What an exception of the SDK means, in our tree of errors; others are themselves.

    A 404 in a container that is there is about a file.
    """
    import openai

    told: Any = getattr(error, "message", str(error))
    match error:
        case openai.NotFoundError():
            return FileNotFoundError(told)
        case openai.APIStatusError(status_code=413):
            return TooLarge(told)
    return of_openai_kind(error, openai, "the containers API", "OPENAI_API_KEY") or error
