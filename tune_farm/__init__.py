"""tune-farm: autotune a model's operators on fixed shares of GPUs and CPUs."""

from pathlib import Path

__version__ = "0.1.0"
__all__ = ["__version__"]

# In a checkout that lost its links (a zip download, a file system without them) the parts lie
# beside this folder. Their parent joins this package's path, never sys.path: a plain `server`
# stays unknown.
_here = Path(__file__).resolve().parent
if not (_here / "tuner").is_dir() and (_here.parent / "tuner" / "types.py").is_file():
    __path__.append(str(_here.parent))
