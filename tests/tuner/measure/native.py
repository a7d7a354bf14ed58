"""Libraries in C that misbehave as no compiler output should."""

from __future__ import annotations

import subprocess
from pathlib import Path

CRASH = "*(volatile int *)8 = 1;"
ABORT = "abort();"
DIVIDE_BY_ZERO = "raise(SIGFPE);"
HANG = "for (;;) pause();"
VANISH = "_exit(0);"
KILL = "kill(getpid(), SIGKILL);"
NOTHING = ""


def native(path: Path, body: str) -> Path:
    """Compile a library whose `main` runs a piece of C, whatever it is called with."""
    source = path.with_suffix(".c")
    source.write_text(
        "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "int __tvm_ffi_main(void *self, const void *arguments, int count, void *result) {\n"
        f"  {body}\n  return 0;\n}}\n"
    )
    command = ["gcc", "-shared", "-fPIC", "-O0", "-w", "-o", str(path), str(source)]
    subprocess.run(command, check=True)
    return path
