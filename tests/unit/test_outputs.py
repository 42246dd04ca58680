"""Outputs folded into a run, and every ending in plain words."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.sandbox import explain
from belljar.sandbox.base import GIB, KIB, MIB, Limits
from belljar.sandbox.outputs import Display, Error, Exit, FileChanged, Output, Result, Run, Stderr, Stdout, fold

PNG = Display({"image/png": b"png", "text/plain": "<Figure>"})
TABLE = Result({"text/plain": "x", "text/html": "<table>"})
FILE = FileChanged("a.csv", 3, 1.0, "text/csv")
LIMITS = Limits()
LOST = "The variables are gone; the files in /mnt/data are still there, and the next cell starts afresh."
KEPT = "The variables are kept."


def test_nothing_folds_to_nothing() -> None:
    assert fold([]) == Run((), "", "", None, (), (), Exit("ok"))


def test_everything_has_its_place() -> None:
    outputs: list[Output] = [Stdout("a"), Stderr("!"), PNG, Stdout("b"), TABLE, FILE, Exit("ok", seconds=1.5)]
    run = fold(iter(outputs))
    assert run == Run(tuple(outputs), "ab", "!", TABLE, (PNG,), (FILE,), Exit("ok", seconds=1.5))
    assert (run.ok, run.text, run.html, run.error) == (True, "x", "<table>", None)
    assert [image.png for image in run.images] == [b"png"]
    assert (TABLE.html, TABLE.png, PNG.png, PNG.html, PNG.text) == ("<table>", None, b"png", None, "<Figure>")


def test_a_result_that_is_an_image_comes_last_among_the_images() -> None:
    result = Result({"image/png": b"r"})
    assert [image.png for image in fold([result, PNG, Exit("ok")]).images] == [b"png", b"r"]


def test_a_display_without_plain_text_has_none() -> None:
    assert (Display({}).text, Display({"image/png": "text"}).png, Display({"text/html": b""}).html) == ("", None, None)


def test_what_raised_is_at_hand() -> None:
    error = Error("ValueError", "no", "Traceback …")
    run = fold([Exit("raised", "ValueError: no", error=error)])
    assert (run.ok, run.text, run.html, run.error) == (False, "", "", error)


@given(st.lists(st.one_of(st.builds(Stdout, st.text()), st.builds(Stderr, st.text()), st.just(PNG), st.just(FILE))))
def test_folding_loses_nothing(outputs: list[Output]) -> None:
    run = fold(outputs)
    assert run.outputs == tuple(outputs)
    assert len(run.stdout) + len(run.stderr) == sum(len(o.text) for o in outputs if isinstance(o, Stdout | Stderr))
    assert len(run.displays) + len(run.files) == sum(isinstance(o, Display | FileChanged) for o in outputs)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"), (1023, "1023 bytes"), (KIB, "1 KiB"), (1536, "1.5 KiB"), (MIB, "1 MiB"),
        (100_000_000, "95.37 MiB"), (GIB, "1 GiB"), (64 * GIB, "64 GiB"),
    ],
)  # fmt: skip
def test_sizes_read_as_people_write_them(count: int, text: str) -> None:
    assert explain.size(count) == text


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    ("made", "status", "reason", "words"),
    [
        (lambda kept: explain.timeout(2.5, kept=kept, seconds=3), "timed_out", None,
         ["longer than its 2.5 s", "Stopped: the cell"]),
        (lambda kept: explain.interrupt(kept=kept, error=None, seconds=3), "killed", "interrupted",
         ["Interrupted on request."]),
        (lambda kept: explain.excess("memory", Limits(memory=4 * GIB), kept=kept, seconds=3), "killed", "memory",
         ["the 4 GiB of memory"]),
        (lambda kept: explain.excess("cpu", Limits(cpu_time=9), kept=kept, seconds=3), "killed", "cpu",
         ["9 s of processor time"]),
        (lambda kept: explain.excess("output", Limits(output_total=8 * MIB), kept=kept, seconds=3), "killed", "output",
         ["printed more than 8 MiB"]),
    ],
)  # fmt: skip
def test_a_stop_names_its_limit(made: object, status: str, reason: str | None, words: list[str], kept: bool) -> None:
    seen: Exit = made(kept)  # type: ignore[operator]
    assert (seen.status, seen.reason, seen.kept, seen.seconds, seen.ok) == (status, reason, kept, 3, False)
    assert seen.limit == ("time" if status == "timed_out" else None if reason == "interrupted" else reason)
    for word in [*words, KEPT if kept else LOST]:
        assert word in seen.text
    assert "  " not in seen.text


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        (0, "exited", f"The code ended its own interpreter with exit code 0 (os._exit or the like). {LOST}"),
        (7, "exited", f"The code ended its own interpreter with exit code 7 (os._exit or the like). {LOST}"),
        (-signal.SIGSEGV, "crashed", "The interpreter crashed: a segmentation fault: a bug in native code, or a stack "
         f"overflow (too deep recursion in C). {LOST}"),
        (-signal.SIGKILL, "crashed",
         f"The interpreter crashed: SIGKILL, sent by the code itself or by the kernel. {LOST}"),
        (-signal.SIGABRT, "crashed", "The interpreter crashed: an abort: native code gave up, as after heap corruption "
         f"or a failed assertion. {LOST}"),
        (-signal.SIGUSR1, "crashed", f"The interpreter crashed: SIGUSR1. {LOST}"),
        (-50, "crashed", f"The interpreter crashed: signal 50. {LOST}"),
    ],
)  # fmt: skip
def test_the_end_of_an_interpreter(status: int, reason: str, text: str) -> None:
    seen = explain.process_end(status, out_of_memory=False, limits=LIMITS, seconds=1)
    assert seen == Exit("killed", text, reason=reason, code=status, kept=False, seconds=1)  # type: ignore[arg-type]


def test_the_end_for_want_of_memory() -> None:
    seen = explain.process_end(-9, out_of_memory=True, limits=LIMITS, seconds=1)
    assert seen == explain.excess("memory", LIMITS, kept=False, seconds=1)


def test_other_ends() -> None:
    seen = explain.disconnect(seconds=1)
    assert (seen.status, seen.reason, seen.kept) == ("killed", "disconnected", False)
    assert LOST in seen.text
    gone = "The sandbox was lost (why). Its variables are gone."
    assert explain.loss("why", seconds=1) == Exit("killed", gone, reason="lost", kept=False, seconds=1, limit="lost")


@pytest.mark.parametrize(
    ("kind", "message", "note", "text"),
    [
        ("ValueError", "no", "", "ValueError: no"),
        ("ValueError", "", "", "ValueError"),
        ("ValueError", "", "Note.", "ValueError. Note."),
        ("ValueError", "one\ntwo", "", "ValueError: one"),
        ("ValueError", "x" * 400, "", "ValueError: " + "x" * 300 + "…"),
        ("SystemExit", "3", "It left.", "SystemExit: 3. It left."),
        ("EOFError", "Nobody.", "Really.", "EOFError: Nobody. Really."),
        ("OSError", "[Errno 28] No space left on device", "",
         "OSError: [Errno 28] No space left on device. The workspace holds 512 MiB, /tmp 256 MiB."),
        ("OSError", "[Errno 27] File too large", "", "OSError: [Errno 27] File too large. One file may have 512 MiB."),
        ("OSError", "[Errno 24] Too many open files: 'x'", "",
         "OSError: [Errno 24] Too many open files: 'x'. A process may have 1024 files open."),
        ("RuntimeError", "can't start new thread", "",
         "RuntimeError: can't start new thread. Processes and threads together may be 256."),
        ("BlockingIOError", "[Errno 11] Resource temporarily unavailable", "",
         "BlockingIOError: [Errno 11] Resource temporarily unavailable. Processes and threads together may be 256."),
        ("urllib.error.URLError", "<urlopen error [Errno -3] Temporary failure in name resolution>", "",
         "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>. There is no network "
         "in here."),
        ("MemoryError", "", "The limit.", "MemoryError. The limit."),
        ("PermissionError", "[Errno 1] Operation not permitted", "",
         "PermissionError: [Errno 1] Operation not permitted. The jail does not allow this system call."),
        ("PermissionError", "[Errno 13] Permission denied: '/x'", "",
         "PermissionError: [Errno 13] Permission denied: '/x'"),
    ],
)  # fmt: skip
def test_an_exception_is_told_with_the_limit_behind_it(kind: str, message: str, note: str, text: str) -> None:
    error = Error(kind, message, "Traceback …")
    told = explain.exception(error, LIMITS, code=None, note=note, seconds=1)
    assert told == Exit("raised", text, told.hint, error=error, seconds=1, limit=told.limit)
    assert text.endswith(told.hint)
    assert told.hint.startswith(note)


@pytest.mark.parametrize(
    ("kind", "message", "limit"),
    [
        ("OSError", "[Errno 28] No space left on device", "disk"),
        ("OSError", "[Errno 27] File too large", "file_size"),
        ("OSError", "[Errno 24] Too many open files: 'x'", "open_files"),
        ("RuntimeError", "can't start new thread", "processes"),
        ("OSError", "[Errno 101] Network is unreachable", "network"),
        ("ConnectionRefusedError", "[Errno 111] Connection refused", "network"),
        ("PermissionError", "[Errno 1] Operation not permitted", None), ("ValueError", "no", None),
    ],
)  # fmt: skip
def test_an_exception_has_its_limit(kind: str, message: str, limit: str | None) -> None:
    assert explain.exception(Error(kind, message, ""), LIMITS, code=None, note="", seconds=1).limit == limit


def test_what_the_guest_knows_of_memory_is_told_in_one_way() -> None:
    told = explain.exception(Error("MemoryError", "", ""), LIMITS, code=None, note="", seconds=1, limit="memory")
    assert (
        told.text == f"MemoryError. The memory limit of {explain.size(LIMITS.memory)} was reached; variables are kept."
    )
