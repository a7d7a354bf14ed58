"""Code belongs to the candidate that came out as it first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tune_farm.tuner.build.claims import claim


def test_the_first_owns_and_may_ask_again(tmp_path: Path) -> None:
    folder = tmp_path / "claims"

    assert claim(folder, "aa", "first") == "first"
    assert claim(folder, "aa", "second") == "first"
    assert claim(folder, "aa", "first") == "first"
    assert claim(folder, "bb", "second") == "second"


def test_only_one_of_many_owns(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        owners = list(threads.map(lambda n: claim(tmp_path / str(n % 4), "cc", str(n)), range(64)))

    for place in range(4):
        assert len(set(owners[place::4])) == 1
    assert sorted(path.name for path in (tmp_path / "0").iterdir()) == ["cc"]
