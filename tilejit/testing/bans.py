"""Records calls of other libraries that compute, while a candidate runs.

This detects candidates that let another library compute, or compute in Python. It is no sandbox: a candidate that
rewrites the judge, or computes in a process or library of its own, is refused only if it launches no kernel.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import numpy as np

from ..dataclass import dataclass, field

#: the byte that fills fresh buffers, which then contain NaNs
FRESH = 0xFF
#: the byte that overwrites a result after the judge has read it: large negative numbers or NaNs
STALE = 0xFE
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
    """The foreign calls of a candidate, as text.

    reference: the code of the reference. allowed: names of functions that the candidate may call.
    """

    reference: frozenset[CodeType]
    allowed: Collection[str]
    calls: dict[str, None] = field(default_factory=dict)
    own: dict[CodeType, bool] = field(default_factory=dict)

    def record(self, name: str, frame: FrameType | None) -> None:
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
        patches: dict[str, Any] = {name: self._patched(getattr(np, name)) for name in _MAKES}
        with mock.patch.multiple(np, **patches):
            threading.setprofile(self._event)
            sys.setprofile(self._event)
            try:
                yield
            finally:
                sys.setprofile(former[0])
                threading.setprofile(former[1])

    def _patched(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def patched(*args: Any, **kwargs: Any) -> Any:
            array = make(*args, **kwargs)
            if array.dtype.hasobject or not self._is_own(sys._getframe(1)):
                return array
            if make.__name__.startswith("empty"):
                plain(array)[...] = filled((), array.dtype, FRESH)
            made = np.ndarray.view(array, JudgedArray)
            made.ban = self
            return made

        return patched

    def _is_own(self, frame: FrameType) -> bool:
        """True for a frame of the candidate."""
        code = frame.f_code
        if code not in self.own:
            self.own[code] = _root(_module(frame)) not in _TRUSTED
        return self.own[code]

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


def codes(function: Any) -> frozenset[CodeType]:
    """Return the code that a call of a reference runs: of a function, a method, or a module of torch."""
    named = (getattr(function, name, None) for name in ("__func__", "__wrapped__", "forward", "func"))
    own = vars(type(function)).get("__call__")
    is_shared = str(getattr(own, "__module__", "")).startswith("torch.")
    found = [function, *named, *([] if is_shared else [own])]
    return frozenset(x.__code__ for x in found if isinstance(getattr(x, "__code__", None), CodeType))


def _recording(name: str) -> Any:
    """Return an attribute of NumPy's arrays, whose reads are recorded."""
    own: Any = getattr(np.ndarray, name)

    def get(array: JudgedArray) -> Any:
        array._record(f"ndarray.{name}")
        return own.__get__(array)

    return property(get, own.__set__)


class JudgedArray(np.ndarray[Any, Any]):
    """An array of NumPy that records operators and functions which are applied to it."""

    ban: Ban | None = None
    is_output = False

    def __array_finalize__(self, source: Any) -> None:
        self.ban = getattr(source, "ban", None)
        self.is_output = getattr(source, "is_output", False)

    def _record(self, name: str) -> None:
        if self.ban is not None:
            self.ban.record(f"numpy.{name}", sys._getframe(2))

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if not isinstance(part, np.ndarray):
            self._record("ndarray.__getitem__")
        return part

    def view(self, *args: Any, **kwargs: Any) -> Any:
        result = super().view(*args, **kwargs)
        if not isinstance(result, JudgedArray):
            self._record("ndarray.view")
        return result

    flat, data = _recording("flat"), _recording("data")

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        self._record(ufunc.__name__)
        if "out" in kwargs:
            kwargs["out"] = tuple(map(plain, kwargs["out"]))
        return getattr(ufunc, method)(*map(plain, inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ not in _ALLOWED:
            self._record(function.__name__)
        return super().__array_function__(function, types, args, kwargs)


def plain(value: Any) -> Any:
    """Return an array as one of NumPy's own class, which isn't watched; other values as they are."""
    return np.ndarray.view(value, np.ndarray) if isinstance(value, JudgedArray) else value


def filled(shape: Sequence[int], dtype: np.dtype[Any], byte: int) -> np.ndarray[Any, Any]:
    """Return an array that consists of one byte."""
    return np.full((*shape, dtype.itemsize), byte, np.uint8).view(dtype)[..., 0]


def consists_of(array: np.ndarray[Any, Any], byte: int) -> np.ndarray[Any, Any]:
    """Return a mask of the elements that consist of one byte."""
    parts = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
    return np.asarray((parts == byte).all(1).reshape(array.shape))
