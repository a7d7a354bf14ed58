"""Reads a stranger's ONNX file: whatever is wrong with it becomes one line and a remedy."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from tune_farm.sharding.models.folding import fold_shape_arithmetic
from tune_farm.tuner.errors import UsageError

_EXPORT_AGAIN = "export the model to ONNX again (torch.onnx.export, tf2onnx, …)"
#: Above this the checker cannot serialize a model in memory (protobuf's limit of 2 GiB).
_CHECK_LIMIT_BYTES = 1_900_000_000


def read_onnx(path: Path, *, with_weights: bool = True) -> onnx.ModelProto:
    """Read and check a file; with its external data unless only shapes are wanted.

    Raises:
        UsageError: the file cannot be read, or holds no usable model.
    """
    proto = _read(path)
    if with_weights:
        _read_external_data(path, proto)
    # The checker looks for external data that was not read in the working directory.
    _check_content(path, proto, whole=with_weights or not _has_external_data(proto))
    return proto


def fold(path: Path, proto: onnx.ModelProto) -> None:
    """Compute the shape arithmetic, in place, once sizes are known.

    Raises:
        UsageError: the sizes contradict each other.
    """
    if proto.ByteSize() > _CHECK_LIMIT_BYTES:
        return
    try:
        fold_shape_arithmetic(proto)
    except onnx.shape_inference.InferenceError as error:
        raise UsageError(
            f"{path}: its sizes do not fit together: {_one_line(error)}",
            "check the sizes given with --shape",
        ) from error


def _read(path: Path) -> onnx.ModelProto:
    if path.is_dir():
        raise UsageError(f"{path} is a folder", "give the .onnx file in it")
    if not path.exists():
        raise UsageError(f"{path} does not exist", "check the path of the .onnx file")
    try:
        if not path.stat().st_size:
            raise UsageError(f"{path} is empty", "download or export the model again")
        return onnx.load(path, load_external_data=False)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "check the file") from error
    except (DecodeError, ValueError) as error:
        first = path.read_bytes()[:64]
        if first.startswith(b"version https://git-lfs"):
            raise UsageError(f"{path} is a Git LFS pointer, not a model", "git lfs pull") from error
        raise UsageError(f"{path} is not an ONNX file, or is cut short", _EXPORT_AGAIN) from error


def _read_external_data(path: Path, proto: onnx.ModelProto) -> None:
    try:
        onnx.load_external_data_for_model(proto, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise UsageError(
            f"{path}: its external data cannot be loaded: {_one_line(error)}",
            "put the data file where the model expects it, beside the .onnx file",
        ) from error


def _check_content(path: Path, proto: onnx.ModelProto, *, whole: bool) -> None:
    """Reject files that hold no usable model."""
    if not proto.HasField("graph"):
        raise UsageError(f"{path} holds no graph: not an ONNX model", _EXPORT_AGAIN)
    if not proto.graph.node:
        raise UsageError(f"{path} holds no operators", _EXPORT_AGAIN)
    if not proto.graph.output:
        raise UsageError(f"{path} has no outputs", _EXPORT_AGAIN)
    newest = onnx.defs.onnx_opset_version()
    opset = max((item.version for item in proto.opset_import if not item.domain), default=1)
    if opset > newest:
        raise UsageError(
            f"{path} uses opset {opset}; the newest known here is {newest}",
            f"export it with opset {newest} or older, or update the onnx package",
        )
    if not whole or proto.ByteSize() > _CHECK_LIMIT_BYTES:
        return
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        # Operators of other domains are the importer's to judge, with a better message.
        if not _has_other_domains(proto):
            cause = f"{path} is not valid ONNX: {_one_line(error)}"
            raise UsageError(cause, _EXPORT_AGAIN) from error


def _has_other_domains(proto: onnx.ModelProto) -> bool:
    return any(node.domain not in ("", "ai.onnx") for node in proto.graph.node)


def _has_external_data(proto: onnx.ModelProto) -> bool:
    return any(data.data_location == onnx.TensorProto.EXTERNAL for data in proto.graph.initializer)


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
