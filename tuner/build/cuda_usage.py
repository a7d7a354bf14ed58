"""What a compiled kernel takes of a device, as the assembler reports it, and whether it can launch.

The arrays of a sketch estimate registers; here is what the compiler really gave a thread, and what
did not fit and went to memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tune_farm.tuner.types import KernelUsage

_FUNCTION = re.compile(r"Compiling entry function '(?P<name>\S+)'")
_MEMORY = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_REGISTERS = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<shared>\d+) bytes smem")
_BOUNDS = re.compile(r"__launch_bounds__\((?P<threads>\d+)\)\s+(?P<name>\w+)\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLimits:
    """What one block may take, as a target says."""

    threads: int
    registers: int
    shared_bytes: int

    @classmethod
    def of_target(cls, attributes: Mapping[str, int]) -> BlockLimits:
        """Read a target's attributes, which describe the device."""
        return cls(
            threads=int(attributes["max_threads_per_block"]),
            registers=int(attributes["registers_per_block"]),
            shared_bytes=int(attributes["max_shared_memory_per_block"]),
        )


def usage_of(source: str, log: str, dynamic_shared_bytes: Mapping[str, int]) -> list[KernelUsage]:
    """Read the assembler's report.

    Args:
        source: of the kernels, for their threads.
        log: what ptxas said with `-v`.
        dynamic_shared_bytes: by kernel, where a launch asks for some.

    Raises:
        ValueError: the report is not in the form that is known.
    """
    threads = {found["name"]: int(found["threads"]) for found in _BOUNDS.finditer(source)}
    parts = _FUNCTION.split(log)
    found = [
        _one(name, text, threads, dynamic_shared_bytes)
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    ]
    if not found:
        raise ValueError(f"no kernel in the assembler's report: {log[:500]!r}")
    return found


def _one(
    name: str, text: str, threads: Mapping[str, int], dynamic: Mapping[str, int]
) -> KernelUsage:
    memory, registers, shared = _MEMORY.search(text), _REGISTERS.search(text), _SHARED.search(text)
    if memory is None or registers is None or name not in threads:
        raise ValueError(f"no usage of {name} in the assembler's report: {text[:500]!r}")
    return KernelUsage(
        name=name,
        threads=threads[name],
        registers=int(registers["registers"]),
        spilled_bytes=int(memory["stores"]) + int(memory["loads"]),
        stack_bytes=int(memory["stack"]),
        static_shared_bytes=int(shared["shared"]) if shared else 0,
        dynamic_shared_bytes=dynamic.get(name, 0),
    )


def why_pruned(kernels: Iterable[KernelUsage], limits: BlockLimits) -> str | None:
    """Why a binary is not worth a measurement; None if it is."""
    for each in kernels:
        for what, used, allowed in (
            ("threads", each.threads, limits.threads),
            ("registers", each.block_registers, limits.registers),
            ("bytes of shared memory", each.shared_bytes, limits.shared_bytes),
        ):
            if used > allowed:
                return f"{each.name} can't be launched: {used} {what} a block, of {allowed}"
        if each.spilled_bytes:
            return (
                f"{each.name} spills {each.spilled_bytes} bytes a thread "
                f"({each.registers} registers, {each.threads} threads a block)"
            )
    return None
