"""The versions of Triton whose private interface of launchers is known."""

from __future__ import annotations

from importlib import metadata, util

from ..errors import LaunchError

#: supported minor versions
SUPPORTED = ("3.7", "3.8", "3.9")


def require() -> str:
    """Return the minor version of Triton. raises: LaunchError if it isn't supported, or if torch or Triton is missing.
    """
    for package in ("torch", "triton"):
        if util.find_spec(package) is None:
            raise LaunchError(
                f"the sanitizer for Triton needs {package}, which isn't installed",
                hint="pip install 'tilejit[triton]' torch",
            )
    version = installed()
    minor = ".".join(version.split(".")[:2])
    if minor not in SUPPORTED:
        *others, last = SUPPORTED
        raise LaunchError(
            f"Triton {version} is not supported", hint=f"install Triton {', '.join(others)} or {last}"
        )
    return minor


def installed() -> str:
    """Return the version of the Triton that an import finds."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        import triton

        return str(triton.__version__)


#: supported minor versions of numba-cuda
SUPPORTED_NUMBA = ("0.30",)


def require_numba() -> None:
    """Raise LaunchError if numba-cuda is missing or its version isn't supported."""
    try:
        version = metadata.version("numba-cuda")
    except metadata.PackageNotFoundError:
        raise LaunchError(
            "the sanitizer for Numba needs numba-cuda, which isn't installed", hint="pip install 'tilejit[numba]'"
        ) from None
    if ".".join(version.split(".")[:2]) not in SUPPORTED_NUMBA:
        raise LaunchError(
            f"numba-cuda {version} is not supported; supported: {', '.join(SUPPORTED_NUMBA)}",
            hint="pip install 'tilejit[numba]'",
        )
