"""The filter's program, run by a small machine of our own: it says what the policy says, for every number we know
and for any other."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from belljar.sandbox.local import seccomp
from belljar.sandbox.local.attacks import calls

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
MACHINES = sorted(seccomp.ARCHITECTURES)
WORD = st.integers(0, 2**64 - 1)
INTERESTING = st.sampled_from(
    [0, 1, 2, 3, 4, 6, 10, 16, 17, 58, 132, 262, 1024, 0x5412, 0x541C, 0x8000, 0x8011, 0xFFFFFFFF, 0x10000000]
)
ARGS = st.tuples(*[WORD | INTERESTING | INTERESTING.map(lambda n: n | 1 << 32)] * 6)


OPTIONS = {
    *((1, number) for number in (2, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 18, 19, 20, 21, 29, 34, 35, 40, 42, 63, 64)),
    *((1, number) for number in (66, 67, 76)),
    *((0, number) for number in (1, 2, 10, 11, 24)),
    *((6, number) for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 18, 23, 25)),
    *((41, number) for number in (16, 23, 25, 26, 67)),
}


def verdict(program: bytes, architecture: int, number: int, args: tuple[int, ...] = (0,) * 6) -> int:
    """What the program answers: classic BPF over struct seccomp_data."""
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *args)
    instructions = list(struct.iter_unpack("HBBI", program))
    accumulator, at = 0, 0
    for _ in range(len(instructions)):
        code, jump_true, jump_false, k = instructions[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, k)
            case 0x54:
                accumulator &= k
            case 0x05:
                at += k
            case 0x15:
                at += jump_true if accumulator == k else jump_false
            case 0x35:
                at += jump_true if accumulator >= k else jump_false
            case 0x45:
                at += jump_true if accumulator & k else jump_false
            case 0x06:
                return int(k)
            case _:
                raise AssertionError(f"instruction {code:#x}")
    raise AssertionError("it does not end")


def policy(name: str | None, number: int, args: tuple[int, ...]) -> int:
    """What the filter is for, said once more without BPF."""
    low = [arg & 0xFFFFFFFF for arg in args]
    deny = ERRNO | errno.EPERM
    if number > seccomp.HIGHEST:
        return ERRNO | errno.ENOSYS
    match name:
        case None:
            return ALLOW
        case "clone":
            apart = low[0] & 0x10000 and not low[0] & 0x400  # a thread with files of its own
            return deny if low[0] & 0x7E028000 or apart else ALLOW
        case "close_range":
            return deny if low[2] & 2 else ALLOW
        case "clone3":
            return ERRNO | errno.ENOSYS
        case "socket" | "socketpair":
            if low[0] not in (1, 2, 10):
                return ERRNO | errno.EAFNOSUPPORT
            if low[0] != 1 and low[1] & 0xF != 1:
                return deny
            return ALLOW if low[2] in ((0, 1) if low[0] == 1 else (0, 6)) else ERRNO | errno.EPROTONOSUPPORT
        case "ioctl":
            return deny if low[1] in (0x5412, 0x541C) else ALLOW
        case "personality":
            return ALLOW if low[0] in (0, 0xFFFFFFFF) else deny
        case "fcntl":
            return deny if low[1] in (1024, 1026) else ALLOW
        case "setsockopt":
            if (low[1], low[2]) in ((1, 7), (1, 8)):
                return ERRNO  # as if it were done
            return ALLOW if (low[1], low[2]) in OPTIONS else ERRNO | errno.ENOPROTOOPT
        case _ if name.startswith(("inotify_", "io_")) and not name.startswith("io_uring"):
            return ERRNO | errno.ENOSYS
        case "splice" | "tee" | "vmsplice":
            return ERRNO | errno.ENOSYS
        case "setpriority":
            return deny if low[0] == 2 or low[1] == 1 else ALLOW
        case "ioprio_set":
            return deny if low[0] == 3 or low[1] == 1 else ALLOW
        case "prlimit64":
            return deny if low[0] == 1 or (low[1] == 4 and args[2]) else ALLOW
        case "setrlimit":
            return deny if low[0] == 4 else ALLOW
        case "sched_setscheduler" | "sched_setparam" | "sched_setattr" | "sched_setaffinity":
            return deny if low[0] == 1 else ALLOW
        case _:
            return deny


def names(machine: str) -> dict[int, str]:
    column, _ = seccomp.ARCHITECTURES[machine]
    return {number: name for name, row in seccomp.NUMBERS.items() if (number := row[column]) is not None}


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", sorted(seccomp.NUMBERS))
def test_every_entry_is_judged_as_it_should_be(machine: str, name: str) -> None:
    column, architecture = seccomp.ARCHITECTURES[machine]
    number = seccomp.NUMBERS[name][column]
    if number is None:
        return  # no such call on this machine
    program = seccomp.program(machine)
    values = [
        0,
        1,
        2,
        3,
        4,
        5,
        10,
        16,
        17,
        1024,
        0x5412,
        0x541C,
        0x10000,
        0x10400,
        0x10000000,
        0x00020000,
        0x8000,
        0x8011,
        0xFFFFFFFF,
        1 << 32,
        1 << 32 | 1,
    ]
    for place in range(3):
        for value in values:
            for other in (0, 2, 4):
                args = tuple(value if index == place else other for index in range(6))
                assert verdict(program, architecture, number, args) == policy(name, number, args), (args, hex(number))


def test_every_number_up_to_the_highest(machine: str) -> None:
    _, architecture = seccomp.ARCHITECTURES[machine]
    program, known = seccomp.program(machine), names(machine)
    for number in range(seccomp.HIGHEST + 64):
        assert verdict(program, architecture, number) == policy(known.get(number), number, (0,) * 6), number


@given(number=st.integers(0, 2**32 - 1) | st.integers(0, 600), args=ARGS, machine=st.sampled_from(MACHINES))
@example(number=0x40000000 | 165, args=(0,) * 6, machine="x86_64")
@example(number=0xFFFFFFFF, args=(0,) * 6, machine="x86_64")
def test_any_number_with_any_arguments(number: int, args: tuple[int, ...], machine: str) -> None:
    _, architecture = seccomp.ARCHITECTURES[machine]
    expected = policy(names(machine).get(number), number, args)
    assert verdict(seccomp.program(machine), architecture, number, args) == expected


@given(data=st.data(), args=ARGS, machine=st.sampled_from(MACHINES))
def test_what_is_judged_by_argument(data: st.DataObject, args: tuple[int, ...], machine: str) -> None:
    column, architecture = seccomp.ARCHITECTURES[machine]
    name = data.draw(st.sampled_from(sorted(seccomp.BY_ARGUMENT)))
    number = seccomp.NUMBERS[name][column]
    assert number is not None
    assert verdict(seccomp.program(machine), architecture, number, args) == policy(name, number, args)


@given(architecture=st.integers(0, 2**32 - 1), number=st.integers(0, 2**32 - 1), machine=st.sampled_from(MACHINES))
@example(architecture=0x40000003, number=20, machine="x86_64")
@example(architecture=0x40000028, number=20, machine="aarch64")
def test_another_architecture_is_killed(architecture: int, number: int, machine: str) -> None:
    if architecture != seccomp.ARCHITECTURES[machine][1]:
        assert verdict(seccomp.program(machine), architecture, number) == KILL


def test_the_kernel_will_take_it(machine: str) -> None:
    instructions = list(struct.iter_unpack("HBBI", seccomp.program(machine)))
    assert len(instructions) <= 4096
    for at, (code, jump_true, jump_false, distance) in enumerate(instructions):
        if code in (0x15, 0x35, 0x45):
            assert at + 1 + max(jump_true, jump_false) < len(instructions)
        if code == 0x05:
            assert at + 1 + distance < len(instructions)


def test_every_option_of_a_socket(machine: str) -> None:
    column, architecture = seccomp.ARCHITECTURES[machine]
    program, number = seccomp.program(machine), seccomp.NUMBERS["setsockopt"][column]
    assert number is not None
    for level in (0, 1, 2, 5, 6, 7, 17, 40, 41, 42, 132, 136, 255, 279, 282, 1 << 32 | 6):
        for option in range(110):
            args = (3, level, option, 0, 0, 0)
            assert verdict(program, architecture, number, args) == policy("setsockopt", number, args), args


def test_the_end_of_a_program_is_the_end(machine: str) -> None:
    instructions = list(struct.iter_unpack("HBBI", seccomp.program(machine)))
    assert instructions[-1][0] == 0x06


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.program("riscv64")


def test_what_must_stay_allowed(machine: str) -> None:
    """Ordinary work: files, memory, threads, sockets, children."""
    ordinary = {
        "x86_64": {"read": 0, "mmap": 9, "futex": 202, "execve": 59, "openat": 257, "wait4": 61, "getrandom": 318},
        "aarch64": {"read": 63, "mmap": 222, "futex": 98, "execve": 221, "openat": 56, "wait4": 260, "getrandom": 278},
    }[machine]
    _, architecture = seccomp.ARCHITECTURES[machine]
    program = seccomp.program(machine)
    assert {name: verdict(program, architecture, number) for name, number in ordinary.items()} == dict.fromkeys(
        ordinary, ALLOW
    )
    column, _ = seccomp.ARCHITECTURES[machine]
    clone, socket = seccomp.NUMBERS["clone"][column], seccomp.NUMBERS["socket"][column]
    assert clone is not None
    assert socket is not None
    for flags in (0x3D0F00, 0x11, 0x1200011, 0x4111, 0x1000011):  # a thread, fork, vfork and posix_spawn, as libc asks
        assert verdict(program, architecture, clone, (flags, 0, 0, 0, 0, 0)) == ALLOW
    for family, kind, protocol in ((1, 1, 0), (1, 2, 0), (1, 0x80805, 0), (2, 1, 6), (10, 1, 0), (2, 0x80801, 0)):
        assert verdict(program, architecture, socket, (family, kind, protocol, 0, 0, 0)) == ALLOW


def test_files_without_a_name_are_refused_where_nobody_counts_them(machine: str) -> None:
    column, architecture = seccomp.ARCHITECTURES[machine]
    program = seccomp.no_hidden_files(machine)
    for number in range(600):
        expected = ERRNO | errno.ENOSYS if number == {"x86_64": 319, "aarch64": 279}[machine] else ALLOW
        assert verdict(program, architecture, number) == expected
    assert seccomp.MEMFD_CREATE[column] == {"x86_64": 319, "aarch64": 279}[machine]


def test_the_attacks_try_every_call_that_is_denied() -> None:
    """Their numbers are written down apart from the filter's: the two must agree."""
    tried = {name: (x86, arm) for name, x86, arm, _ in calls._CALLS}
    absent = {name: (x86, arm) for name, x86, arm, _ in calls._ABSENT}
    assert {name: seccomp.NUMBERS[name] for name in seccomp.MISSING} == absent
    elsewhere = {"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "unshare"}
    assert {name: seccomp.NUMBERS[name] for name in seccomp.DENIED - elsewhere} == tried
