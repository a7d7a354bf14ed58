"""Maps the checkout's top-level folders into the one package `tune_farm`.

All other metadata is in pyproject.toml. This much is code because sub-packages must be found, not
listed, and found below the real folders: the links in tune_farm/ may be missing from a copy.
"""

from setuptools import find_namespace_packages, setup

PARTS = ("tuner", "sharding", "client", "server")


def _below(folder: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return find_namespace_packages(folder, exclude=("*__pycache__*", *exclude))


linked = tuple(name for part in (*PARTS, "configs") for name in (part, f"{part}.*"))
packages = ["tune_farm", *(f"tune_farm.{name}" for name in _below("tune_farm", linked))]
for part in PARTS:
    packages += [f"tune_farm.{part}", *(f"tune_farm.{part}.{name}" for name in _below(part))]

setup(
    packages=[*packages, "tune_farm.configs"],
    package_dir={f"tune_farm.{part}": part for part in (*PARTS, "configs")},
)
