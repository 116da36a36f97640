"""What a process may do: limits, files and system calls. Standard library only.

Run as a script it confines itself and becomes another program::

    python -I -S confinement.py '{"limits": {"cpu": 60}, "readable": ["/usr"], "writable": ["."]}' nvcc …

A candidate's process loads this file too, and confines itself just before it loads the candidate. Everything here
is kept by the kernel, needs no privilege, and cannot be undone by the process. What the kernel lacks is left out and
said so in the return value; nothing here pretends. Not promised: protection from a fault in the kernel or the driver.

Sources: landlock(7), seccomp(2), setrlimit(2) and the kernel's uapi headers for the numbers.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Collection

_LIBC = ctypes.CDLL(None, use_errno=True)

_LIMITS = {
    "cpu": resource.RLIMIT_CPU,
    "memory": resource.RLIMIT_AS,
    "data": resource.RLIMIT_DATA,
    "file": resource.RLIMIT_FSIZE,
    "files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}


def limit_resources(**limits: int) -> None:
    """Set resource limits: ``cpu`` seconds, ``memory``, ``data`` and ``file`` bytes, open ``files``, ``processes``.

    ``memory`` is address space, of which a CUDA process reserves terabytes; ``data`` is what it may write to. A limit
    above the one in force is lowered to it. Core dumps are always off, and where memory runs out after all, the kernel
    ends this process before any other.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _be_first_out_of_memory()
    for name, value in limits.items():
        _, hard = resource.getrlimit(_LIMITS[name])
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(_LIMITS[name], (value, value))


def _be_first_out_of_memory() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


# --- files (Landlock) ------------------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def landlock_version() -> int:
    """The kernel's Landlock version, 0 without."""
    version: int = _LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(version, 0)


def restrict_files(readable: list[str], writable: list[str]) -> bool:
    """Allow reading and executing below ``readable``, everything below ``writable``, nothing else.

    Paths that do not exist are passed over. Where the kernel can, TCP and signals to other processes end too.
    Returns whether the restriction holds.
    """
    version = landlock_version()
    if not version:
        return False
    # Bits by version: 13 file rights, then REFER (2), TRUNCATE (3), IOCTL_DEV (5).
    handled = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    network = _TCP if version >= 4 else 0
    scoped = _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    attributes = struct.pack("QQQ", handled, network, scoped)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _LIBC.syscall(_CREATE_RULESET, attributes, size, 0)
    if ruleset < 0:
        return False
    try:
        for paths, rights in ((readable, _READ), (writable, handled)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        _no_new_privileges()
        return bool(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _ON_A_FILE
        _LIBC.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


# --- system calls (seccomp) ------------------------------------------------------------------------------------------

# x86-64 numbers. Threads are allowed, processes are not: nothing here needs a child.
_FORBIDDEN = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322,
    "connect": 42, "bind": 49, "io_uring_setup": 425,
    "setsid": 112, "setpgid": 109,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_open": 434, "pidfd_getfd": 438,
    "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_send_signal": 424,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "init_module": 175, "finit_module": 313,
    "kexec_load": 246, "reboot": 169, "add_key": 248, "request_key": 249, "keyctl": 250,
    "shmget": 29, "msgget": 68, "semget": 64, "setpriority": 141,
    "process_madvise": 440, "process_mrelease": 448, "kcmp": 312, "ioprio_set": 251,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "fanotify_init": 300, "open_by_handle_at": 304, "delete_module": 176, "kexec_file_load": 320,
    "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179, "syslog": 103,
    "iopl": 172, "ioperm": 173, "sethostname": 170, "setdomainname": 171,
    "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
    # What outlives a process, and memory that others made.
    "shmat": 30, "shmctl": 31, "msgsnd": 69, "msgrcv": 70, "msgctl": 71,
    "semop": 65, "semctl": 66, "semtimedop": 220, "mq_open": 240, "mq_unlink": 241,
    # Landlock does not watch over modes, owners, times and attributes, also of files that may not be opened.
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452,
    "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "file_setattr": 469,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "removexattrat": 466,
}  # fmt: skip
"""CUDA, CUPTI, Nsight Compute and compute-sanitizer work without all of it (seen on an H200 with driver 580)."""

_CLONE, _CLONE3, _KILL, _TGKILL, _PRLIMIT = 56, 435, 62, 234, 302
_CLONE_THREAD = 0x10000

# Of this process alone (0), or nobody's: a judge whose processors are taken away measures a slow library.
_OF_ITSELF_ONLY = {
    "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_setparam": 142, "sched_setattr": 314,
    "migrate_pages": 256, "move_pages": 279,
}  # fmt: skip

# A datagram reaches anybody's socket without a connection. To Linux a raw Unix socket is one for datagrams.
_SOCKETS = {"socket": 41, "socketpair": 53}
_AF_UNIX = 1
_SOCKET_TYPE, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5

# The owner of a descriptor gets its signals, and any signal can be chosen. TIOCSTI types into a terminal.
_FCNTL, _F_SETOWN, _F_SETOWN_EX = 72, 8, 15
_IOCTL, _FIOSETOWN, _SIOCSPGRP, _TIOCSTI = 16, 0x8901, 0x8902, 0x5412

_AUDIT_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_ARCH_OFFSET, _NUMBER_OFFSET = 4, 0
_ARGUMENT_0_OFFSET, _ARGUMENT_1_OFFSET = 16, 24

_Line = tuple[int, int, int, int]
_REFUSE: _Line = (_RETURN, 0, 0, _ERRNO | _EPERM)
_PASS: _Line = (_RETURN, 0, 0, _ALLOW)

_SECCOMP = 317
_SET_MODE_FILTER, _TSYNC = 1, 1
_SET_NO_NEW_PRIVS = 38


def restrict_syscalls(allowed: Collection[str] = ()) -> bool:
    """Forbid, for every thread of this process: children, other programs, the network, other processes.

    Args:
        allowed: Names of system calls that a tool in this process cannot do without.

    Returns whether the restriction holds; False on another machine than x86-64 Linux.
    """
    if platform.machine() != "x86_64":
        return False
    code = b"".join(struct.pack("=HBBI", *line) for line in _filter(os.getpid(), allowed))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    _no_new_privileges()
    return bool(_LIBC.syscall(_SECCOMP, _SET_MODE_FILTER, _TSYNC, program) == 0)


def _filter(own_pid: int, allowed: Collection[str]) -> list[_Line]:
    """The BPF program: (operation, jump if true, jump if false, operand) per line."""
    lines = [
        (_LOAD, 0, 0, _ARCH_OFFSET),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        _REFUSE,
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        (_JUMP_GREATER_EQUAL, 0, 1, _X32_BIT),
        _REFUSE,
    ]
    # First, because they are frequent and Linux remembers no answer that depends on arguments.
    lines += _unless_second(_IOCTL, _FIOSETOWN, _SIOCSPGRP, _TIOCSTI)
    lines += _unless_second(_FCNTL, _F_SETOWN, _F_SETOWN_EX)
    for name, number in _FORBIDDEN.items():
        if name not in allowed:
            lines += [(_JUMP_EQUAL, 0, 1, number), _REFUSE]
    # glibc falls back to clone, whose flags a filter can read; clone3's lie in memory.
    lines += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    lines += _only_if(_CLONE, (_JUMP_SET, _CLONE_THREAD))
    for number in (_KILL, _TGKILL):
        lines += _only_if(number, (_JUMP_EQUAL, own_pid))
    for name, number in ({"prlimit": _PRLIMIT} | _OF_ITSELF_ONLY).items():
        if name not in allowed:
            lines += _only_if(number, (_JUMP_EQUAL, 0))
    for number in _SOCKETS.values():
        lines += _only_connected(number)
    return [*lines, _PASS]


def _when(number: int, lines: list[_Line]) -> list[_Line]:
    """Lines for one system call; they must return, since they lose its number."""
    return [(_JUMP_EQUAL, 0, len(lines), number), *lines]


def _only_if(number: int, condition: tuple[int, int]) -> list[_Line]:
    """Allow a system call only when its first argument meets a condition."""
    test, operand = condition
    return _when(number, [(_LOAD, 0, 0, _ARGUMENT_0_OFFSET), (test, 0, 1, operand), _PASS, _REFUSE])


def _unless_second(number: int, *refused: int) -> list[_Line]:
    """Allow a system call unless its second argument is one of these."""
    tests = [line for value in refused for line in ((_JUMP_EQUAL, 0, 1, value), _REFUSE)]
    return _when(number, [(_LOAD, 0, 0, _ARGUMENT_1_OFFSET), *tests, _PASS])


def _only_connected(number: int) -> list[_Line]:
    """Allow Unix sockets that need a connection before they send."""
    return _when(
        number,
        [
            *((_LOAD, 0, 0, _ARGUMENT_0_OFFSET), (_JUMP_EQUAL, 1, 0, _AF_UNIX), _REFUSE),
            *((_LOAD, 0, 0, _ARGUMENT_1_OFFSET), (_AND, 0, 0, _SOCKET_TYPE)),
            *((_JUMP_EQUAL, 1, 0, _SOCK_STREAM), (_JUMP_EQUAL, 0, 1, _SOCK_SEQPACKET), _PASS, _REFUSE),
        ],
    )


def _no_new_privileges() -> None:
    _LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def main() -> None:
    """Confine this process as the first argument says, then become the command that follows."""
    settings = json.loads(sys.argv[1])
    limit_resources(**settings["limits"])
    if "readable" in settings:
        restrict_files(settings["readable"], settings["writable"])
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
