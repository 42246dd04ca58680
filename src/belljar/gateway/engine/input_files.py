"""Files that come with a request: into the container before the first cell, and told to the model by their paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

from msgspec import structs

from belljar.errors import InvalidRequest
from belljar.gateway.containers import Containers
from belljar.gateway.containers.names import placed_id
from belljar.gateway.engine.readable_files import ReadableFiles, check_size, data_url, read_data_url
from belljar.gateway.store.base import Blobs, ContainerFileRecord, ContainerRecord, FileRecord, Records
from belljar.wire.items import FunctionCallOutput, InputFile, InputImage, InputItem, InputText, Message, Part

LARGEST_PICTURE = 20 << 20
"""Bytes of one that goes to a model as part of its request."""
_ATTACHED = frozenset({InputFile, InputImage})
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def has_files(items: Iterable[InputItem]) -> bool:
    return any(type(part) is InputFile for item in items for part in _list_parts(item))


def _is_bare(item: InputItem) -> bool:
    """It has neither files nor pictures, as most have."""
    return _ATTACHED.isdisjoint(map(type, _list_parts(item)))


def _list_parts(item: InputItem) -> Sequence[Part]:
    if isinstance(item, Message) and not isinstance(item.content, str):
        return item.content
    if isinstance(item, FunctionCallOutput) and not isinstance(item.output, str):
        return item.output
    return ()


def _replace_parts(item: InputItem, parts: Sequence[Part]) -> InputItem:
    if isinstance(item, Message):
        return structs.replace(item, content=tuple(parts))
    return structs.replace(item, output=tuple(parts))  # type: ignore[type-var]


def _format_path(item: InputItem, at: int, number: int) -> str:
    """A part's place in the request."""
    return f"input[{at}].{'content' if isinstance(item, Message) else 'output'}[{number}]"


@contextmanager
def _name_param(param: str) -> Iterator[None]:
    """A container's refusal of a file, with the name that the request has for it."""
    try:
        yield
    except InvalidRequest as error:
        problem = str(error).removeprefix("file: ")
        raise InvalidRequest(f"Invalid value for '{param}': {problem}.", param=param, fault="invalid_value") from None


def _is_uploaded(id: object) -> TypeGuard[str]:
    """By /v1/files, and not a file of the container itself."""
    return isinstance(id, str) and not id.startswith("cfile_")


def _no_file(id: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"No such File object: {id}", param=param)


class InputFiles:
    """The files of one response: where each is, and how its part is shown to the model."""

    def __init__(self, records: Records, blobs: Blobs, containers: Containers, owner: str) -> None:
        self._records = records
        self._blobs = blobs
        self._containers = containers
        self._owner = owner
        self._places: dict[str, str] = {}
        self.placed = False
        """Whether the container has been given any."""
        self.params: dict[str, str] = {}
        """Which parameter gave a file, by its path in the container."""
        self.describe_place: Callable[[str], str] = "at /mnt/data/{}".format
        """What the model is told of where a file is, by its path in the container."""
        self.words: dict[str, str] = {}
        """What a model that sees no pictures is told of one that code can open, by its data URL."""
        self._inline: dict[str, str] = {}
        self._unseen: dict[str, str] = {}
        self._readable: dict[InputFile, InputFile] = {}
        """Files as the model is given them to read, by their parts."""

    async def place_ids(self, container: ContainerRecord, file_ids: Sequence[str], param: str) -> None:
        """Uploaded files that the tool names."""
        where = [f"{param}[{number}]" for number in range(len(file_ids))]
        await self._place(container, await self._get_files(file_ids, where), where)

    async def place_parts(self, container: ContainerRecord, items: Sequence[InputItem]) -> tuple[InputItem, ...]:
        """The files of the input. What came inline is from now on a file of the container, and kept as such."""
        uploaded = {
            f"{_format_path(item, at, number)}.file_id": part.file_id
            for at, item in enumerate(items)
            for number, part in enumerate(_list_parts(item))
            if isinstance(part, InputFile) and _is_uploaded(part.file_id)
        }
        files = await self._get_files([*uploaded.values()], [*uploaded])
        await self._place(container, files, [*uploaded])
        staged: list[InputItem] = []
        for at, item in enumerate(items):
            parts = _list_parts(item)
            if not any(isinstance(part, InputFile) for part in parts):
                staged.append(item)
                continue
            moved: list[Part] = []
            for number, part in enumerate(parts):
                where = _format_path(item, at, number)
                moved.append(await self._place_part(container, part, where) if isinstance(part, InputFile) else part)
            staged.append(_replace_parts(item, moved))
        return tuple(staged)

    async def place_again(self, container: ContainerRecord, items: Sequence[InputItem]) -> None:
        """Files of earlier requests, into a container that may be a new one; those deleted since are left out."""
        ids = {part.file_id for item in items for part in _list_parts(item) if isinstance(part, InputFile)}
        there = await self._records.get_files([id for id in ids if isinstance(id, str)], self._owner) if ids else []
        await self._place(container, there, ["previous_response_id"] * len(there))

    async def _place_part(self, container: ContainerRecord, part: InputFile, where: str) -> InputFile:
        if isinstance(part.file_id, str):
            return part
        if isinstance(part.file_data, str):
            kind, data = read_data_url(part.file_data, f"{where}.file_data")
            name = part.filename if isinstance(part.filename, str) and part.filename else "file"
            await self._containers.check_room(container.owner, len(data))
            async with self._blobs.write() as writer:
                await writer.write(data)
                blob = await writer.finish()
            with _name_param(f"{where}.filename"):
                kept = await self._containers.put_file(container, name, blob, type=kind)
            self.placed = True
            self._places[kept.id] = kept.path
            self.params[kept.path] = f"{where}.file_data"
            return InputFile(file_id=kept.id, filename=name)
        raise InvalidRequest(
            f"Unsupported value: '{where}.file_url'. This gateway fetches nothing from the network: upload the file to"
            " /v1/files and give its file_id, or send it as file_data.",
            param=f"{where}.file_url",
            fault="unsupported_value",
        )

    async def _place(self, container: ContainerRecord, files: Sequence[FileRecord], params: Sequence[str]) -> None:
        """Those that the container is known to have are there."""
        own = {file.id: placed_id(container.id, file.id) for file in files}
        missing = [file for file in files if own[file.id] not in self._places]
        if missing:
            self.placed = True
            for file, kept in zip(missing, await self._containers.place(container, missing), strict=True):
                self._places[own[file.id]] = kept.path
        for file, param in zip(files, params, strict=True):
            path = self._places[file.id] = self._places[own[file.id]]
            self.params[path] = param

    def add_known(self, files: Iterable[ContainerFileRecord]) -> None:
        """Files that the container already has."""
        self._places.update({file.id: file.path for file in files})

    async def load(
        self, items: Sequence[InputItem], *, before: int, housed: bool, reader: ReadableFiles | None, model: str
    ) -> None:
        """Read what must go to the model itself: pictures, and whole files where it reads them.

        So many items were there `before` the request's own. `housed` says that there is a container for files, though
        one given earlier may be gone with another container: then nobody but code reads them.
        """
        for at, item in enumerate(items, -before):
            for number, part in enumerate(() if _is_bare(item) else _list_parts(item)):
                where = _format_path(item, at, number) if at >= 0 else "previous_response_id"
                if isinstance(part, InputImage):
                    if part.file_id is not None and part.file_id not in self._inline:
                        await self._load_picture(part.file_id, where, earlier=at < 0)
                elif housed or not isinstance(part, InputFile) or part in self._readable:
                    continue
                elif reader is not None:
                    await self._load_file(part, where, reader, earlier=at < 0)
                else:
                    raise InvalidRequest(
                        f"Unsupported value: '{where}'. The model '{model}' takes no files. Add the code_interpreter"
                        " tool to have them in its container.",
                        param=where,
                        fault="unsupported_value",
                    )

    async def _load_file(self, part: InputFile, where: str, reader: ReadableFiles, *, earlier: bool) -> None:
        """What is only an address, the vendor fetches; what is gone since it was given is told in words."""
        if isinstance(part.file_data, str):
            self._readable[part] = await reader.give_data(part, part.file_data, where)
        elif isinstance(part.file_id, str):
            if earlier and await self._records.get_file(part.file_id, self._owner) is None:
                return
            file = await self._get_file(part.file_id, f"{where}.file_id")
            self._readable[part] = await reader.give_kept(part, file, where)

    async def _load_picture(self, id: str, where: str, *, earlier: bool) -> None:
        """One that is in the container too is never refused: the model knows where it is, whether or not it sees it."""
        if earlier and await self._records.get_file(id, self._owner) is None:
            self._unseen[id] = "[A picture was given earlier and is no longer here]"
            return
        file = await self._get_file(id, f"{where}.file_id")
        words = f"[{file.filename!r} cannot be shown to you as a picture; code can open it]"
        if id in self._places and (file.type not in _IMAGES or file.size > LARGEST_PICTURE):
            self._unseen[id] = words
            return
        if file.type not in _IMAGES:
            raise InvalidRequest(
                f"Invalid value for '{where}.file_id': {file.filename!r} is {file.type}, not a picture."
                f" Supported are {', '.join(sorted(_IMAGES))}.",
                param=f"{where}.file_id",
                fault="invalid_value",
            )
        self._inline[id] = await self._read_as_data_url(file, where)
        if id in self._places:
            self.words[self._inline[id]] = words

    def show_items(self, items: Iterable[InputItem]) -> tuple[InputItem, ...]:
        """The items as the model sees them: a file that is in the container is a path."""
        return tuple(
            [
                item if _is_bare(item) else _replace_parts(item, [self._show_part(part) for part in _list_parts(item)])
                for item in items
            ]
        )

    def _show_part(self, part: Part) -> Part:
        if isinstance(part, InputImage) and part.file_id in self._inline:
            return structs.replace(part, file_id=None, image_url=self._inline[part.file_id])
        if isinstance(part, InputImage) and part.file_id in self._unseen:
            return InputText(text=self._unseen[part.file_id])
        if isinstance(part, InputFile) and part in self._readable:
            return self._readable[part]
        if not isinstance(part, InputFile) or not isinstance(part.file_id, str):
            return part
        if part.file_id in self._places:
            path = self._places[part.file_id]
            return InputText(text=f"[The file {path.rsplit('/', 1)[-1]!r} is {self.describe_place(path)}]")
        name = part.filename if isinstance(part.filename, str) else part.file_id
        return InputText(text=f"[The file {name!r} was given earlier and is no longer here]")

    async def _get_files(self, ids: Sequence[str], params: Sequence[str]) -> list[FileRecord]:
        found = {file.id: file for file in await self._records.get_files(ids, self._owner)} if ids else {}
        for id, param in zip(ids, params, strict=True):
            if id not in found:
                raise _no_file(id, param)
        return [found[id] for id in ids]

    async def _get_file(self, id: str, param: str) -> FileRecord:
        file = await self._records.get_file(id, self._owner)
        if file is None:
            raise _no_file(id, param)
        return file

    async def _read_as_data_url(self, file: FileRecord, where: str) -> str:
        check_size(file.filename, file.size, LARGEST_PICTURE, where)
        return data_url(file.type, b"".join([chunk async for chunk in self._blobs.stream(file.blob)]))
