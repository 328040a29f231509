"""The versions of Triton and numba-cuda whose private interfaces are known."""

from __future__ import annotations

from importlib import metadata, util

from ..errors import LaunchError

_TRITON = ("3.7", "3.8", "3.9")
_NUMBA_CUDA = ("0.30",)


def require_triton() -> None:
    """Raise LaunchError if torch or Triton is missing, or Triton's version isn't supported."""
    for package in ("torch", "triton"):
        if util.find_spec(package) is None:
            raise LaunchError(
                f"the sanitizer for Triton needs {package}, which isn't installed",
                hint="pip install 'tilejit[triton]' torch",
            )
    _require("Triton", installed(), _TRITON)


def installed() -> str:
    """Return the version of the Triton that an import finds."""
    import triton

    return str(triton.__version__)


def require_numba() -> None:
    """Raise LaunchError if numba-cuda is missing, or its version isn't supported."""
    try:
        version = metadata.version("numba-cuda")
    except metadata.PackageNotFoundError:
        raise LaunchError(
            "the sanitizer for Numba needs numba-cuda, which isn't installed", hint="pip install 'tilejit[numba]'"
        ) from None
    _require("numba-cuda", version, _NUMBA_CUDA)


def _require(package: str, version: str, supported: tuple[str, ...]) -> None:
    if ".".join(version.split(".")[:2]) not in supported:
        versions = ", ".join(supported[:-1]) + " or " * (len(supported) > 1) + supported[-1]
        raise LaunchError(f"{package} {version} is not supported", hint=f"install {package} {versions}")
