"""Which candidate was the first to come out as some code: builds of a pool share the answer.

Different decisions often end as the same code. The first candidate with it is compiled and
measured; the others are told whose code it is.
"""

from __future__ import annotations

import os
from pathlib import Path


def claim(folder: Path, code: str, candidate_id: str) -> str:
    """Claim code for a candidate, unless another has it already.

    Args:
        folder: shared by those who must not build the same twice; made if missing.
        code: a hash of what was generated, fit for a file name.
        candidate_id: who asks; asking again, as for another attempt, is granted again.

    Returns:
        The id of the candidate that the code belongs to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / code
    note = folder / f"{code}.{os.getpid()}.{candidate_id}"
    note.write_text(candidate_id)
    try:
        os.link(note, path)  # the name and its content appear at once, for one of all who try
    except FileExistsError:
        return path.read_text()
    finally:
        note.unlink()
    return candidate_id
