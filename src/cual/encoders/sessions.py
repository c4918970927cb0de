"""onnxruntime sessions: opened with as many threads as torch may use, and with named errors."""

import os
from pathlib import Path
from typing import Any

from cual.errors import BadFile, BadOption, Unavailable


def open_session(file: Path, device: str = "cpu", threads: int | None = None) -> Any:
    """An inference session for a file.

    Parameters
    ----------
    file
        The ONNX file.
    device
        "cpu" or "cuda".
    threads
        Threads of one run; by default as many as there are cores, or as `OMP_NUM_THREADS` says.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise Unavailable("this needs onnxruntime: pip install 'cual[encoders]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or cores()
    options.log_severity_level = 3
    wanted = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}[device.partition(":")[0]]
    if wanted not in onnxruntime.get_available_providers():
        raise BadOption(f"this onnxruntime cannot compute on {device}; install onnxruntime-gpu, or use cpu")
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=[wanted])
    except Exception as error:  # onnxruntime raises a class of its own for every cause
        raise BadFile(f"{file} is not an ONNX file that can run here: {str(error)[:300]}") from error


def cores() -> int:
    """Cores that this process may use."""
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if threads.isdigit() and int(threads) > 0:
        return int(threads)
    if hasattr(os, "sched_getaffinity"):  # of Linux; elsewhere nobody is kept to some of the cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
