"""The system calls an agent does without: a filter in the kernel's classic BPF, as `bwrap --seccomp` takes it.

Denied are calls that reach into other processes, make or enter namespaces, mount, widen the CPU affinity, or hold
memory that no process maps and no file system counts (memfd, System V shared memory, keys, rings).
Source: the kernel's seccomp(2) and `linux/filter.h`; call numbers from `asm/unistd_64.h` and `asm-generic/unistd.h`.
"""

import platform
import struct

# call: (x86_64, aarch64); None: that machine has no such call
DENIED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "sched_setaffinity": (203, 122),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "uselib": (134, None),
}
MISSING = {  # answered with ENOSYS, so that programs take their other way
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "clone3": (435, 435),  # its flags lie in memory, where a filter cannot look
    "io_uring_setup": (425, 425),
}
CLONE = (56, 220)
NAMESPACES = 0x7E020080  # CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWTIME

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables, AUDIT_ARCH
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
NUMBER, ARCH, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
X32 = 0x40000000


def program(machine: str | None = None) -> bytes:
    """The filter for this machine, or the named one.

    Raises:
        ValueError: no call numbers are known for the machine.
    """
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise ValueError(f"no system call filter for {machine!r}; known: {', '.join(MACHINES)}")
    column, arch = MACHINES[machine]
    code = [
        (LOAD, 0, 0, ARCH),
        (JUMP_EQUAL, 1, 0, arch),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        code += [(JUMP_AT_LEAST, 0, 1, X32), (RETURN, 0, 0, EPERM)]
    for table, answer in ((DENIED, EPERM), (MISSING, ENOSYS)):
        for numbers in table.values():
            if numbers[column] is not None:
                code += [(JUMP_EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, answer)]
    code += [
        (JUMP_EQUAL, 0, 3, CLONE[column]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_ANY, 0, 1, NAMESPACES),
        (RETURN, 0, 0, EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in code)
