"""Many files that code made as one: a zip, which is then listed, approved and saved like any other file."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterable

from belljar.files.results import CodeExecutionOutputFile, FileDownloadResult, spool
from belljar.filesystem.export import may_leave
from belljar.filesystem.paths import segments_of
from belljar.output_names import below, free_name


def zip_files(files: Iterable[CodeExecutionOutputFile], name: str = "outputs.zip") -> CodeExecutionOutputFile:
    """Fetch the files, piece by piece, into one archive. Inside, each has its own path, which leads nowhere else.

    Those that run by themselves where they are unpacked, such as `.git`, are left out and logged.
    """
    target = spool()
    taken: set[str] = set()
    now = time.localtime()[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            if not may_leave(segments_of(below(file.filename))):
                continue
            inside = free_name(below(file.filename), taken)
            taken.add(inside)
            about = zipfile.ZipInfo(inside, now)
            about.compress_type = zipfile.ZIP_DEFLATED
            with file.download() as fetched, archive.open(about, "w", force_zip64=True) as entry:
                for piece in fetched.chunks():
                    entry.write(piece)
    made = FileDownloadResult(name, "application/zip", target)
    return CodeExecutionOutputFile(
        file_id="", filename=name, size=made.size, mime_type=made.mime_type, download=lambda: made
    )
