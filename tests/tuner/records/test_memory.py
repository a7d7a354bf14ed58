"""What runs learned comes back whole, bounded, and never costs a run."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from tune_farm.tuner.predictor.lessons import Lesson
from tune_farm.tuner.records import memory
from tune_farm.tuner.records.memory import Notebook, recall

LAW = "cpu-0123456789"


def lesson(number: int, task: str = "1") -> Lesson:
    return Lesson(task_id=task, features=(0.5, float(number)), log2_error=number / 4)


def notebook(folder: Path, run: str = "run", law: str = LAW, place: str = "here") -> Notebook:
    return Notebook(folder, run_id=run, law=law, header={"created": 1.0}, place=place)


def write(folder: Path, run: str, *lessons: Lesson, law: str = LAW, place: str = "here") -> Path:
    notebook(folder, run, law, place).add(lessons, lambda _: "matmul")
    path = folder / f"{run}.{law}.jsonl"
    number = int(run.removeprefix("run-")) if run.startswith("run-") else 0
    os.utime(path, (number, number))
    return path


def test_what_was_learned_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    write(folder, "run-1", lesson(1), lesson(2))
    write(folder, "run-2", lesson(3), place="there")

    recalled = recall(folder, LAW, leave_out="run-9")

    assert [chapter.place for chapter in recalled.chapters] == ["there", "here"]  # the latest first
    assert recalled.chapters[1].lessons == (lesson(1), lesson(2))
    assert recalled.rows == 3
    assert recalled.damaged == ()
    header, row, _ = (folder / f"run-1.{LAW}.jsonl").read_text().splitlines()
    assert json.loads(header)["v"] == 1
    assert json.loads(row)["kind"] == "matmul"


def test_the_same_rows_have_the_same_hash(tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        write(folder, "run-1", lesson(1))
    first, second = (recall(tmp_path / name, LAW, leave_out="").sha256 for name in "ab")
    assert first == second != ""

    write(tmp_path / "b", "run-2", lesson(2))
    assert recall(tmp_path / "b", LAW, leave_out="").sha256 != first


def test_another_law_and_the_run_itself_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "run-1", lesson(1), law="cpu-9999999999")
    write(tmp_path, "run-2", lesson(2))

    assert recall(tmp_path, LAW, leave_out="run-2").chapters == ()


def test_a_lesson_told_again_is_kept_once_also_after_a_resume(tmp_path: Path) -> None:
    book = notebook(tmp_path)
    book.add([lesson(1), lesson(1)], lambda _: "matmul")
    book.add([lesson(1), lesson(2)], lambda _: "matmul")

    notebook(tmp_path).add([lesson(2), lesson(3)], lambda _: "matmul")

    (chapter,) = recall(tmp_path, LAW, leave_out="").chapters
    assert chapter.lessons == (lesson(1), lesson(2), lesson(3))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_last_line_costs_itself_alone(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, "run", lesson(1), lesson(2))
    path.write_bytes(path.read_bytes()[:-cut])

    assert recall(tmp_path, LAW, leave_out="").rows == 1
    notebook(tmp_path).add([lesson(3)], lambda _: "matmul")

    recalled = recall(tmp_path, LAW, leave_out="")
    assert recalled.damaged == ()
    assert lesson(1) in recalled.chapters[0].lessons
    assert lesson(3) in recalled.chapters[0].lessons


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json\n", "Expecting value"),
        ("[]\n", "no header"),
        ('{"kind": "memory", "v": 2, "place": "x"}\n', "version 2"),
        ('{"kind": "memory", "v": 1}\n', "place"),
        ('{"kind": "memory", "v": 1, "place": "x"}\n{"task": "1"}\n', "features"),
        (
            '{"kind": "memory", "v": 1, "place": "x"}\n'
            '{"task": "1", "features": [1.0, 2.0], "log2_error": 1e300}\n',
            "no measurement",
        ),
        (
            '{"kind": "memory", "v": 1, "place": "x"}\n'
            '{"task": "1", "features": [1.0], "log2_error": 1.0}\n',
            "differ in length",
        ),
        ("\x00\xff" * 50 + "\n", ""),
    ],
)
def test_a_damaged_file_is_named_and_left_aside(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path, "run-2000000000", lesson(1))
    path = tmp_path / f"bad.{LAW}.jsonl"
    path.write_bytes(text.encode("latin-1"))
    os.utime(path, (1, 1))

    recalled = recall(tmp_path, LAW, leave_out="")

    assert recalled.rows == 1
    (line,) = recalled.damaged
    assert str(path) in line
    assert says in line
    assert "\n" not in line


def test_a_run_that_just_began_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / f"run.{LAW}.jsonl").touch()

    assert recall(tmp_path, LAW, leave_out="") == memory.Recalled()
    notebook(tmp_path).add([lesson(1)], lambda _: "matmul")
    assert recall(tmp_path, LAW, leave_out="").rows == 1


def test_a_folder_that_cannot_be_made_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "memory"

    with caplog.at_level(logging.WARNING):
        book = notebook(folder)
        book.add([lesson(1)], lambda _: "matmul")
        book.add([lesson(2)], lambda _: "matmul")

    (said,) = caplog.messages
    assert said.startswith("what this run learns is not kept: ")
    assert recall(folder, LAW, leave_out="") == memory.Recalled()


def test_a_resumed_run_does_not_write_into_a_file_of_another_version(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / f"run.{LAW}.jsonl"
    path.write_text('{"kind": "memory", "v": 2, "place": "x"}\n')

    notebook(tmp_path).add([lesson(1)], lambda _: "matmul")

    assert "version 2" in caplog.text
    assert path.read_text().count("\n") == 1


def test_no_number_that_json_lacks_is_written(tmp_path: Path) -> None:
    odd = Lesson(task_id="1", features=(1.0, 2.0), log2_error=float("nan"))
    write(tmp_path, "run", odd, lesson(1))

    assert recall(tmp_path, LAW, leave_out="").chapters[0].lessons == (lesson(1),)


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_OF_RUN", 8)
    monkeypatch.setattr(memory, "MOST_RECALLED_OF_RUN", 4)
    monkeypatch.setattr(memory, "MOST_RECALLED", 6)
    monkeypatch.setattr(memory, "MOST_FILES", 3)
    for run in range(1, 6):
        write(tmp_path, f"run-{run}", *(lesson(number) for number in range(20)))

    assert sorted(path.name[:5] for path in tmp_path.iterdir()) == ["run-3", "run-4", "run-5"]
    lines = (tmp_path / f"run-5.{LAW}.jsonl").read_text().splitlines()
    assert len(lines) == 1 + 8
    recalled = recall(tmp_path, LAW, leave_out="")
    assert [len(chapter.lessons) for chapter in recalled.chapters] == [4, 2]
    assert recalled.chapters[0].lessons == tuple(lesson(n) for n in (0, 2, 4, 6))


def test_two_runs_at_once_keep_to_their_own_files(tmp_path: Path) -> None:
    one, two = notebook(tmp_path, "one"), notebook(tmp_path, "two", place="there")
    for number in range(3):
        one.add([lesson(number, "1")], lambda _: "matmul")
        two.add([lesson(number, "2")], lambda _: "matmul")

    recalled = recall(tmp_path, LAW, leave_out="")

    assert recalled.damaged == ()
    told = {
        chapter.place: {each.task_id for each in chapter.lessons} for chapter in recalled.chapters
    }
    assert told == {"here": {"1"}, "there": {"2"}}


def test_a_file_that_was_cleared_away_meanwhile_is_not_begun_without_a_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    book = notebook(tmp_path)
    book.add([lesson(1)], lambda _: "matmul")
    (tmp_path / f"run.{LAW}.jsonl").unlink()

    book.add([lesson(2)], lambda _: "matmul")

    assert list(tmp_path.iterdir()) == []
    assert len(caplog.messages) == 1
