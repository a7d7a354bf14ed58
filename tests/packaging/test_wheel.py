"""The wheel holds one package, `tune_farm`, whatever became of a copy's links."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("tuner", "sharding", "client", "server")
CONFIG = "configs/probe/example.toml"  # in a folder of its own: those below configs/ come too

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["links", "no-links"])
def checkout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build needs."""
    copy = tmp_path_factory.mktemp("checkout")
    junk = shutil.ignore_patterns("__pycache__")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("tune_farm", "configs", *PARTS):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=junk)
    for part in PARTS:
        link = copy / "tune_farm" / part
        assert link.is_symlink(), link
        if request.param == "no-links":
            link.unlink()
    (copy / CONFIG).parent.mkdir()
    (copy / CONFIG).write_text("answer = 42\n")
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", checkout / "dist", checkout)
    return next((checkout / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    """A folder that holds the installed wheel and nothing else."""
    target = wheel.parent / "site"
    pip("install", "--no-deps", "--target", target, wheel)
    return target


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def python(code: str, *, cwd: Path, site: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(1, {str(site)!r})\n{code}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def modules_of_the_checkout() -> set[str]:
    found = {f"tune_farm/{path.name}" for path in (ROOT / "tune_farm").glob("*.py")}
    for part in ("tune_farm/cli", *PARTS):
        name = part.removeprefix("tune_farm/")
        paths = (ROOT / part).rglob("*.py")
        found |= {f"tune_farm/{name}/{path.relative_to(ROOT / part)}" for path in paths}
    return found


def test_the_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert {name for name in names if name.endswith(".py")} == modules_of_the_checkout()
    assert {PurePosixPath(name).parts[0] for name in names} == {"tune_farm"}
    assert not [name for name in names if "test" in name or "__pycache__" in name]
    trained = "tune_farm/tuner/predictor/forecast/trained.json"
    assert {"tune_farm/py.typed", f"tune_farm/{CONFIG}", trained} <= names


def test_the_installed_package_is_found_from_anywhere(site: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.resources as r, tune_farm.tuner.types, tune_farm.cli.app\n"
        f"print(r.files('tune_farm').joinpath('{CONFIG}').read_text(), tune_farm.tuner.__file__)"
    )
    config, file = python(code, cwd=tmp_path, site=site).rsplit(maxsplit=1)

    assert config == "answer = 42"
    assert Path(file) == site / "tune_farm" / "tuner" / "__init__.py"


def test_a_users_own_modules_are_not_taken_for_ours(site: Path, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    for name in ("server/__init__.py", "client.py", "tuner.py", "sharding.py"):
        (tmp_path / name).write_text("raise SystemExit('the user\\'s')\n")
    code = "; ".join(f"import tune_farm.{part} as {part}; print({part}.__file__)" for part in PARTS)

    files = python(code, cwd=tmp_path, site=site).splitlines()

    assert [Path(file).parent for file in files] == [site / "tune_farm" / part for part in PARTS]


def test_an_editable_install_is_the_checkout(checkout: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip("install", "--no-deps", "--no-build-isolation", "--target", target, "--editable", checkout)
    code = (
        f"import site; site.addsitedir({str(target)!r})\n"
        "import tune_farm, tune_farm.tuner.types as one, tune_farm.client.share.cores as other\n"
        "print(tune_farm.__file__, one.__file__, other.__file__)"
    )

    # Without site-packages (-S), which may hold another copy; from a folder that holds none.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    files = [Path(file).resolve() for file in done.stdout.split()]
    names = ("tune_farm/__init__.py", "tuner/types.py", "client/share/cores.py")
    assert files == [checkout / name for name in names]
