"""A shared library with a compiled kernel inside, on machines with a CUDA driver and without.

Where TVM finds no driver it exports a kernel's source, to be compiled when it is loaded. Here the
binary takes the source's place in what is exported, so that a measuring process compiles nothing.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

#: TVM's names: of the symbol that holds what a library imports, of the entry for the library
#: itself, of a device module's kind, and of the formats of its code.
_SYMBOL = "__tvm_ffi__library_bin"
_ITSELF = "_lib"
_KIND = b"cuda"
_SOURCE, _BINARY = b"cuda", b"cubin"


def export_cuda_library(module: Any, source: str, cubin: bytes, library: str) -> None:
    """Write a built TVM module as a shared library.

    Args:
        module: built by TVM, with one device module of CUDA source.
        source: of that device module.
        cubin: compiled from it.
        library: path to write.
    """

    def pack(module: Any, is_system_library: bool, prefix: str, folder: str) -> str:
        from tvm.runtime import _ffi_api

        packed = _ffi_api.ModulePackImportsToTensor(module)
        blob = with_binary(bytes(packed.numpy().tobytes()), source.encode(), cubin)
        data, assembly = Path(folder) / "imports.bin", Path(folder) / "imports.S"
        data.write_bytes(blob)
        assembly.write_text(_assembly(data))
        return str(assembly)

    module.export_library(library, fpack_imports=pack)


def with_binary(packed: bytes, source: bytes, cubin: bytes) -> bytes:
    """Replace the source of the one device module in a library's imports.

    Raises:
        ValueError: there is not one module with this source, or the form is another.
    """
    reader = _Reader(packed)
    if reader.number() != len(packed) - 8:
        raise ValueError("the imports have another length than they say")
    head = reader.numbers() + reader.numbers()  # the tree of imports
    out, replaced = bytearray(head), 0
    while reader.left:
        kind = reader.text()
        out += _written(kind)
        if kind == _ITSELF.encode():
            continue
        content = reader.text()
        if kind == _KIND:
            content, replaced = _device_module(content, source, cubin), replaced + 1
        out += _written(content)
    if replaced != 1:
        raise ValueError(f"{replaced} device modules, not one")
    return struct.pack("<Q", len(out)) + bytes(out)


def _device_module(content: bytes, source: bytes, cubin: bytes) -> bytes:
    """A device module is its code's format, its kernels' signatures, and the code."""
    start, end = _written(_SOURCE), _written(source)
    if not content.startswith(start) or not content.endswith(end):
        raise ValueError("the device module is not the source that was compiled")
    return _written(_BINARY) + content[len(start) : len(content) - len(end)] + _written(cubin)


def _written(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


class _Reader:
    """Numbers and texts as TVM writes them: 8 bytes, little-endian; texts after their length."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError("the imports end early")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        return int(struct.unpack("<Q", self.take(8))[0])

    def numbers(self) -> bytes:
        """A list of numbers, as it stands there."""
        count = self.number()
        return struct.pack("<Q", count) + self.take(8 * count)

    def text(self) -> bytes:
        return self.take(self.number())


def _assembly(data: Path) -> str:
    """The symbol that TVM's loader looks for, holding a file's bytes."""
    return (
        ".section .rodata\n"
        f".globl {_SYMBOL}\n"
        f".type {_SYMBOL}, @object\n"
        ".balign 8\n"
        f"{_SYMBOL}:\n"
        f'.incbin "{data}"\n'
        f".size {_SYMBOL}, . - {_SYMBOL}\n"
        '.section .note.GNU-stack,"",@progbits\n'
    )
