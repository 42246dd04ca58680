"""/v1/containers and their files."""

from __future__ import annotations

from belljar.errors import InvalidRequest
from belljar.gateway.server import objects, uploads
from belljar.gateway.server.bodies import CONTENT, PAGE, PlaceBody, PlaceForm
from belljar.gateway.server.interfaces import ServerServices
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.store.base import Blob, ContainerFileRecord, ContainerRecord, FileRecord
from belljar.http_server import downloads
from belljar.http_server.multipart import MULTIPART
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Content, Operation, Parameter, Route, json_of
from belljar.wire import error_messages, reading
from belljar.wire.answers import Deleted, ListPage
from belljar.wire.codec import encode
from belljar.wire.containers import Container, ContainerFile
from belljar.wire.items import Json
from belljar.wire.requests import CreateContainer

_FIELDS = {"file_id", "extract"}
_ARCHIVES = {
    b"application/x-tar",
    b"application/zip",
    b"application/gzip",
    b"application/x-gzip",
    b"application/x-bzip2",
    b"application/x-xz",
}
"""What a body may say it is; what it is, it shows itself."""


_ONE = json_of(Container)
_LISTED = (*PAGE, Parameter("name", str, "Only those of this name."))
_ADD = Operation(
    "Put a file into it, or unpack an archive",
    json_of(ContainerFile | ListPage[ContainerFile]),
    (
        Content(PlaceBody),
        Content(PlaceForm, "multipart/form-data"),
        *(Content(None, kind.decode()) for kind in sorted(_ARCHIVES)),
    ),
    query=(Parameter("extract", bool, "Unpack it."),),
)


class ContainerRoutes:
    def __init__(self, services: ServerServices, quotas: Quotas, options: ServerOptions) -> None:
        self._containers = services.containers
        self._records = services.records
        self._blobs = services.blobs
        self._quotas = quotas
        self._options = options

    def routes(self) -> list[Route]:
        one, files = "/v1/containers/{id}", "/v1/containers/{id}/files"
        return [
            Route("POST", "/v1/containers", self.create, Operation("Make one", _ONE, json_of(CreateContainer))),
            Route(
                "GET",
                "/v1/containers",
                self.index,
                Operation("All of them", json_of(ListPage[Container]), query=_LISTED),
            ),
            Route("GET", one, self.get, Operation("One of them", _ONE)),
            Route("DELETE", one, self.delete, Operation("Delete it with its files", json_of(Deleted))),
            Route("POST", files, self.add_file, _ADD),
            Route("GET", files, self.list_files, Operation("Its files", json_of(ListPage[ContainerFile]), query=PAGE)),
            Route("GET", f"{files}/{{file_id}}", self.get_file, Operation("A file", json_of(ContainerFile))),
            Route("DELETE", f"{files}/{{file_id}}", self.delete_file, Operation("Delete a file", json_of(Deleted))),
            Route("GET", f"{files}/{{file_id}}/content", self.send_content, CONTENT),
        ]

    async def create(self, request: Request) -> Answer:
        asked = await request.json(self._options.largest_body, reading.read_container)
        owner = request.caller.owner
        files = [await self._get_file(id, owner, f"file_ids[{at}]") for at, id in enumerate(asked.file_ids)]
        record = await self._containers.create(
            owner,
            name=asked.name,
            memory=asked.memory_limit,
            minutes=asked.expires_after.minutes if asked.expires_after else None,
            network=asked.network_policy,
        )
        if files:
            await self._containers.place(record, files)
        return self._reply(record)

    async def index(self, request: Request) -> Answer:
        page = request.query.read_page()
        rows = await self._containers.list(request.caller.owner, page, request.query.get("name"))
        return Reply(200, objects.encode_page(rows, page.limit, self._build))

    async def get(self, request: Request) -> Answer:
        return self._reply(await self._find(request))

    async def delete(self, request: Request) -> Answer:
        id = request.params["id"]
        await self._containers.delete(id, request.caller.owner)
        return Reply(200, objects.encode_deleted(id, "container.deleted"))

    async def add_file(self, request: Request) -> Answer:
        container = await self._find(request)
        extract = request.query.flag("extract")
        if request.content_type == MULTIPART:
            made = await self._upload(request, container, extract=extract)
        elif request.content_type in _ARCHIVES:
            made = await self._unpack(request, container, extract=extract)
        else:
            id = await request.json(self._options.largest_body, _read_file_id)
            made = await self._place(container, id, request.caller.owner, extract=extract)
        if isinstance(made, list):
            return Reply(200, objects.encode_page(made, len(made), objects.build_container_file))
        return Reply(200, encode(objects.build_container_file(made)))

    async def list_files(self, request: Request) -> Answer:
        page = request.query.read_page()
        rows = await self._containers.list_files(await self._find(request), page)
        return Reply(200, objects.encode_page(rows, page.limit, objects.build_container_file))

    async def get_file(self, request: Request) -> Answer:
        file = await self._containers.get_file(await self._find(request), request.params["file_id"])
        return Reply(200, encode(objects.build_container_file(file)))

    async def delete_file(self, request: Request) -> Answer:
        id = request.params["file_id"]
        await self._containers.delete_file(await self._find(request), id)
        return Reply(200, objects.encode_deleted(id, "container.file.deleted"))

    async def send_content(self, request: Request) -> Answer:
        container = await self._find(request)
        file = await self._containers.get_file(container, request.params["file_id"])
        download = downloads.Download(
            filename=file.path.rpartition("/")[2],
            type=file.type,
            size=file.size,
            blob=file.blob,
            read=lambda start, stop: self._containers.stream_file(container, file, start=start, stop=stop),
        )
        return downloads.deliver(request, download)

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _find(self, request: Request) -> ContainerRecord:
        return await self._containers.get(request.params["id"], request.caller.owner)

    def _reply(self, record: ContainerRecord) -> Answer:
        return Reply(200, encode(self._build(record)))

    def _build(self, record: ContainerRecord) -> Container:
        return objects.build_container(record, self._containers.status(record))

    async def _get_file(self, id: str, owner: str, param: str) -> FileRecord:
        record = await self._records.get_file(id, owner)
        if record is None:
            raise InvalidRequest(
                f"No such File object: {id}. Upload it to /v1/files first.", param=param, fault="invalid_value"
            )
        return record

    async def _upload(
        self, request: Request, container: ContainerRecord, *, extract: bool
    ) -> ContainerFileRecord | list[ContainerFileRecord]:
        """A form: with the file itself, or with the id of one that was uploaded before."""
        owner = request.caller.owner
        limit = await uploads.SizeLimit.of(self._quotas, owner, self._options.largest_upload)
        async with uploads.receive_form(request, self._blobs, limit) as form:
            extract = _read_form(form, extract)
            if form.file is None:
                return await self._place(container, form.fields["file_id"], owner, extract=extract)
            blob = await form.file.keep()
            if extract:
                return list(await self._containers.extract(container, blob, form.file.filename))
            return await self._containers.put_file(container, form.file.filename, blob, type=form.file.type)

    async def _unpack(
        self, request: Request, container: ContainerRecord, *, extract: bool
    ) -> list[ContainerFileRecord]:
        """An archive that is the body itself: large ones come in quicker so than in a form."""
        if not extract:
            raise error_messages.missing("extract", "Add '?extract=true' to have the body unpacked, or send a form.")
        limit = await uploads.SizeLimit.of(self._quotas, request.caller.owner, self._options.largest_upload)
        async with uploads.receive_body(request, self._blobs, limit, "archive") as file:
            return list(await self._containers.extract(container, await file.keep(), file.filename))

    async def _place(
        self, container: ContainerRecord, id: str, owner: str, *, extract: bool
    ) -> ContainerFileRecord | list[ContainerFileRecord]:
        file = await self._get_file(id, owner, "file_id")
        if extract:
            return list(await self._containers.extract(container, Blob(file.blob, file.size), file.filename))
        (placed,) = await self._containers.place(container, [file])
        return placed


def _read_form(form: uploads.ReceivedForm, extract: bool) -> bool:
    """Whether to unpack; the form must hold one of `file` and `file_id`."""
    for name in form.fields:
        if name not in _FIELDS:
            raise error_messages.unknown(name)
    told = form.fields.get("extract", "true" if extract else "false").lower()
    if told not in ("true", "false"):
        raise error_messages.not_one_of("extract", told, ("true", "false"))
    if form.file is not None and "file_id" in form.fields:
        raise error_messages.both("file", "file_id")
    if form.file is None and "file_id" not in form.fields:
        raise error_messages.missing("file", "Send either 'file' or 'file_id'.")
    return told == "true"


def _read_file_id(body: dict[str, Json]) -> str:
    for name in body:
        if name != "file_id":
            raise error_messages.unknown(name)
    if "file_id" not in body:
        raise error_messages.missing("file_id", "Send it, or a file as 'multipart/form-data'.")
    if not isinstance(body["file_id"], str):
        raise error_messages.wrong_type("file_id", ["a string"], body["file_id"])
    return body["file_id"]
