"""The file of trained numbers: what it takes to be read, and what is said if it is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest

from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.predictor.forecast import trained as module
from tune_farm.tuner.predictor.forecast.kernels import KernelKind
from tune_farm.tuner.predictor.forecast.trained import FILE_NAME, parsed, trained, written

TEXT = (files("tune_farm.tuner.predictor.forecast") / FILE_NAME).read_text()


@pytest.fixture
def unread() -> Iterator[None]:
    """Whoever asks reads the file again."""
    trained.cache_clear()
    yield
    trained.cache_clear()


def test_what_ships_is_small_and_whole() -> None:
    assert len(TEXT) < 32_000
    model = trained()
    assert {KernelKind.LINEAR, KernelKind.SOFTMAX} <= model.classes.keys()
    assert all(1.0 < fit.spread < 3.0 for fit in model.classes.values())


def test_it_is_written_as_it_was_read() -> None:
    assert written(parsed(TEXT, "shipped")) == TEXT


def changed(pattern: str, by: str) -> str:
    text, count = re.subn(pattern, by, TEXT, count=1)
    assert count == 1
    return text


def without(*keys: str) -> str:
    document = json.loads(TEXT)
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (changed(r'"overlap": \d', '"overlap": 9'), "checksum"),
        (changed(r'"sha256": "[0-9a-f]', '"sha256": "x'), "checksum"),
        (TEXT[: len(TEXT) // 2], "damaged"),
        ("", "damaged"),
        ("[1, 2]", "damaged"),
        (without("sha256"), "damaged"),
        (without("body", "classes", "linear"), "checksum"),
        (changed(r'"format": 1', '"format": 7'), "format 7"),
    ],
    ids=["number", "checksum", "half", "empty", "list", "no-checksum", "no-class", "format"],
)
def test_a_damaged_file_is_an_error_with_a_remedy(text: str, word: str) -> None:
    with pytest.raises(EnvironmentUnusableError, match=word) as caught:
        parsed(text, "trained.json")

    assert caught.value.exit_code == 5
    assert "install tune-farm again" in caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_checksum_does_not_make_nonsense_sound() -> None:
    document = json.loads(TEXT)
    del document["body"]["classes"]["linear"]
    document["sha256"] = module._checksum(document["body"])

    with pytest.raises(EnvironmentUnusableError, match="linear"):
        parsed(json.dumps(document), "trained.json")


@pytest.mark.usefixtures("unread")
def test_a_missing_file_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_NAME", "gone.json")

    with pytest.raises(EnvironmentUnusableError, match=r"gone\.json.* cannot be read") as caught:
        trained()
    assert caught.value.exit_code == 5
