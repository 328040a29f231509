"""Records calls of other libraries that compute, while a candidate runs.

It finds what programs do that were written to pass a comparison. It is no sandbox: a program that rewrites the judge,
or computes in a process or library of its own, isn't found, except that it launches no kernel.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import numpy as np

from ..dataclass import dataclass, field

#: the byte of which fresh buffers consist: NaN as floats
POISON = 0xFF
#: packages whose functions may not be called
_FOREIGN = frozenset({"numpy", "torch", "scipy", "jax", "jaxlib", "cupy", "numexpr", "tensorflow", "numba"})
#: packages that may call them: those that compile and launch, and the packages themselves
_TRUSTED = _FOREIGN | {"tilejit", "triton", "llvmlite", "ml_dtypes", "cuda", "importlib", "contextlib", "inspect"}
#: functions of NumPy that allocate or copy; arrays that a candidate gets from them are watched, too
_MAKES = (
    "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "ascontiguousarray", "copy",
    "require", "broadcast_to", "atleast_1d",
)
#: functions and methods of NumPy that don't compute
_ALLOWED = frozenset({
    *_MAKES, "copyto", "reshape", "transpose", "swapaxes", "squeeze", "ravel", "flatten", "expand_dims", "moveaxis",
    "shape", "ndim", "size", "dtype", "result_type", "may_share_memory", "shares_memory", "fill", "astype", "__new__",
    "__init__", "__repr__", "__init_subclass__",
})
#: methods of torch that move data to the host
_LEAVES = frozenset({"cpu", "numpy", "tolist", "item", "__array__"})


@dataclass(slots=True)
class Ban:
    """The foreign calls of a candidate, as text. allowed: names of functions that it may call."""

    reference: frozenset[CodeType] = frozenset()
    allowed: Collection[str] = ()
    calls: dict[str, None] = field(default_factory=dict)
    own: dict[CodeType, bool] = field(default_factory=dict)

    def record(self, name: str, frame: FrameType | None = None) -> None:
        """Record a call of `name` by the candidate's innermost frame from `frame` on, if there is one."""
        if name.rpartition(".")[2] in self.allowed or name in self.allowed:
            return
        while frame is not None and not self._is_own(frame):
            frame = frame.f_back
        where = f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else ""
        self.calls[f"it calls {name}{where}"] = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Record calls until the context ends."""
        former = sys.getprofile(), threading.getprofile()
        made: dict[str, Any] = {name: self._watched(getattr(np, name)) for name in _MAKES}
        with mock.patch.multiple(np, **made):
            threading.setprofile(self._event)
            sys.setprofile(self._event)
            try:
                yield
            finally:
                sys.setprofile(former[0])
                threading.setprofile(former[1])

    def _watched(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            array = make(*args, **kwargs)
            if not self._is_own(sys._getframe(1)):
                return array
            if make.__name__.startswith("empty"):
                fill(array)
            watched = np.ndarray.view(array, JudgedArray)
            watched.ban = self
            return watched

        return made

    def _is_own(self, frame: FrameType) -> bool:
        """True for a frame of the candidate."""
        code = frame.f_code
        own = self.own.get(code)
        if own is None:
            own = self.own[code] = _root(_module(frame)) not in _TRUSTED
        return own

    def _event(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            if frame.f_code in self.reference:
                self.record("the reference", frame.f_back)
            elif frame.f_back is not None and self._is_own(frame.f_back) and not self._is_own(frame):
                root = _root(frame.f_globals.get("__name__"))
                # np.prod(x.shape) computes nothing of the data
                if root != "numpy" or any(isinstance(x, np.ndarray) for x in frame.f_locals.values()):
                    self._called(root, frame.f_code.co_name, frame.f_back)
        elif event == "c_call" and self._is_own(frame):
            owner = getattr(arg, "__self__", None)
            module = getattr(arg, "__module__", None) or getattr(owner, "__name__", None) or type(owner).__module__
            self._called("numpy" if isinstance(owner, np.ndarray) else _root(module), arg.__name__, frame)

    def _called(self, root: str, name: str, caller: FrameType) -> None:
        # the dispatcher of torch reports what computes there
        is_banned = name in _LEAVES if root == "torch" else root in _FOREIGN and name not in _ALLOWED
        is_banned |= (root, name) in (("sys", "setprofile"), ("sys", "settrace"))
        if is_banned and not name.startswith("<"):
            # NumPy's functions call a function with this name first
            self.record(f"{root}.{name.removeprefix('_').removesuffix('_dispatcher')}", caller)


def _module(frame: FrameType) -> object:
    """Return the name of a frame's module; that of the caller for code that the simulator or Triton generates."""
    name = frame.f_globals.get("__name__")
    if name is None and frame.f_back is not None:
        caller = str(frame.f_back.f_globals.get("__name__"))
        return "__main__" if caller.startswith("tilejit.testing") else caller
    return name


def _root(module: Any) -> str:
    return str(module).partition(".")[0].lstrip("_")


class JudgedArray(np.ndarray[Any, Any]):
    """An array whose operators and functions record that they are called. It is an array of NumPy otherwise."""

    ban: Ban | None = None
    is_output = False

    def __array_finalize__(self, source: Any) -> None:
        self.ban = getattr(source, "ban", None)
        self.is_output = getattr(source, "is_output", False)

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if self.ban is not None and not isinstance(part, np.ndarray):
            self.ban.record("numpy.ndarray.__getitem__", sys._getframe(1))
        return part

    def view(self, *args: Any, **kwargs: Any) -> Any:
        result = super().view(*args, **kwargs)
        if self.ban is not None and not isinstance(result, JudgedArray):
            self.ban.record("numpy.ndarray.view", sys._getframe(1))
        return result

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if self.ban is not None:
            self.ban.record(f"numpy.{ufunc.__name__}", frame)
        values = [plain(x) for x in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(plain(x) for x in kwargs["out"])
        return getattr(ufunc, method)(*values, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if self.ban is not None and function.__name__ not in _ALLOWED:
            self.ban.record(f"numpy.{function.__name__}", sys._getframe(1))
        return super().__array_function__(function, types, args, kwargs)


def plain(value: Any) -> Any:
    """Return an array as one of NumPy's own class, which isn't watched; other values as they are."""
    return np.ndarray.view(value, np.ndarray) if isinstance(value, JudgedArray) else value


def judged(array: np.ndarray[Any, Any]) -> JudgedArray:
    """Return a copy that is watched, as is its base."""
    copied: JudgedArray = JudgedArray(array.shape, array.dtype)
    plain(copied)[...] = array
    return copied


def fill(array: np.ndarray[Any, Any]) -> None:
    """Fill the elements of an array with the byte POISON."""
    plain(array)[...] = np.full(array.itemsize, POISON, np.uint8).view(array.dtype)
