"""Language elements that also exist outside kernels, such as `tj.constexpr`, `tj.spec`, `@tj.function` and `tj.cdiv`.

The frontend recognizes them by identity or class. Intrinsics are defined in `words`, which launches needn't import.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from numpy.typing import DTypeLike

from ..dataclass import dataclass, field
from ..dtypes import DType, as_dtype
from ..errors import KernelSyntaxError, KernelTypeError
from ..wording import counted, shown
from .annotations import Tensor
from .source import KernelSource


class LanguageName:
    """Base class of intrinsics and of namespaces."""

    __slots__ = ()


#: the default of a required parameter
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class CallParameter:
    """A parameter of a function that only kernels can call."""

    name: str
    #: the accepted type, as a Python annotation
    type: str
    #: one line; empty if the name is self-explanatory
    meaning: str = ""
    default: object = REQUIRED
    #: True for a keyword-only parameter
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Intrinsic(LanguageName):
    # a function that exists only inside kernels; no docstring, because `help` shows the `__doc__` of each instance

    #: as users write it after `tj.`
    name: str
    #: one line, without a final period
    meaning: str
    parameters: tuple[CallParameter, ...] = ()
    #: the type of the result, as a Python annotation or as a phrase that describes how it depends on the arguments
    gives: str = "None"
    #: statements that are valid in a kernel
    example: str = ""
    #: the names of the parameters, of which the first `required` have no default
    names: tuple[str, ...] = field(init=False, compare=False, repr=False)
    required: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple([p.name for p in self.parameters]))
        object.__setattr__(self, "required", sum([p.default is REQUIRED for p in self.parameters]))

    @property
    def __name__(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [inspect.Parameter(p.name, kinds[p.by_name], default=p.default) for p in self.parameters]
        )

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        meanings = [f"{p.name}: {p.meaning}" for p in self.parameters if p.meaning]
        example = ["Example:", *(f"    {line}" for line in self.example.splitlines())]
        parts = [f"tj.{self.name}{self.__signature__}", f"{self.meaning}.", "\n".join(meanings), "\n".join(example)]
        return "\n\n".join(filter(None, parts))

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise KernelTypeError(
            f"tj.{self.name} can only be called inside a kernel",
            hint="call it in a function that is decorated with @tj.kernel or @tj.function",
        )

    def __repr__(self) -> str:
        return f"tj.{self.name}"


@dataclass(frozen=True, slots=True)
class Constexpr:
    """Annotation of a compile-time parameter.

    It takes numbers, strings, None, types, layouts, `@tj.function`s, enum members, and tuples, NamedTuples, frozen
    dataclasses and dicts of these; so do global names. Kernels read items, entries and fields, but call no methods of
    their classes. The keys of a dict are strings and numbers; it is copied at the call.

    Each value is compiled separately. Values are distinguished by type and bits, field by field: `1`, `1.0`, `True`,
    and fields that `==` ignores differ.

    Example:
        @tj.kernel(threads=32)
        def fill(A: tj.Tensor, N: tj.constexpr) -> None:
            tj.cta.store(A[0:N], tj.cta.zeros((N,), A.dtype))

        fill[1](np.ones(7, np.float32), N=7)
    """

    def __repr__(self) -> str:
        return "tj.constexpr"


constexpr: Any = Constexpr()


@dataclass(frozen=True, slots=True)
class Spec:
    """The type of an array: shape, dtype, and strides in elements.

    Example:
        assert tj.spec((32, 8), tj.float32).strides == (8, 1)
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]


if TYPE_CHECKING:

    class PinnedTensor(Spec, Tensor):  # type: ignore[misc]
        """The type of `tj.spec(...)` for type checkers, which must accept it as the default of a `Tensor` parameter."""
else:
    PinnedTensor = Spec


def spec(shape: int | Sequence[int], dtype: DType | DTypeLike, strides: Sequence[int] | None = None) -> PinnedTensor:
    """Describe an array, to fix the type of a parameter or to compile without arrays.

    shape: the extents, an integer or a tuple of integers.
    strides: in elements; C-contiguous if None.
    raises: KernelTypeError for an invalid shape, element type or strides.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        assert "st.global" in k.compile(tj.spec(32, tj.float32), target="sm_90a").ptx
    """
    if not isinstance(shape, (int, Sequence)) or isinstance(shape, (bool, str)):
        raise KernelTypeError(f"{shown(shape)} is not a shape", hint="write an integer or a tuple of integers")
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    element = as_dtype(dtype)
    if element is None:
        raise KernelTypeError(f"{shown(dtype)} is not an element type", hint="write tj.float32 or another element type")
    if any(not isinstance(e, int) or e < 0 for e in extents):
        raise KernelTypeError(f"extents must be non-negative integers; got {extents}", hint="change the shape")
    if strides is None:
        dense = tuple(math.prod(extents[d + 1 :]) for d in range(len(extents)))
        return PinnedTensor(extents, element, dense)
    if not isinstance(strides, Sequence) or isinstance(strides, str):
        raise KernelTypeError(f"strides={shown(strides)} is not valid", hint="write a tuple of integers")
    if len(strides) != len(extents):
        raise KernelTypeError(
            f"{counted(len(strides), 'stride')} {tuple(strides)} can't describe shape {extents}",
            hint="give one stride for each dimension",
        )
    if any(not isinstance(s, int) for s in strides):
        raise KernelTypeError(f"strides must be integers; got {tuple(strides)}", hint="count them in whole elements")
    return PinnedTensor(extents, element, tuple(strides))


class Function:
    """The result of `@tj.function`: a helper that kernels inline and the host can't call."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.source = KernelSource.of(fn)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise KernelTypeError(
            f"{self.source.name} is a @tj.function: it can only be called inside a kernel",
            hint="call it from a function that is decorated with @tj.kernel",
        )

    def __repr__(self) -> str:
        return f"<tj.function {self.source.name}>"


Helper = TypeVar("Helper", bound=Callable[..., Any])


def function(fn: Helper) -> Helper:
    """Decorate a helper that kernels can call; each call is inlined.

    raises: KernelSyntaxError unless it is applied directly to a plain `def` whose source is available and unedited.

    Example:
        @tj.function
        def double(x: tj.Tile) -> tj.Tile:
            return x + x

        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            tj.cta.store(A[0:32], double(tj.cta.load(A[0:32])))

        k[1](np.ones(32, np.float32))
    """
    if not callable(fn) and not isinstance(fn, classmethod):
        raise KernelSyntaxError("@tj.function takes no arguments", hint="write @tj.function above the def")
    # type checkers should see the helper's own signature, hence the cast
    return cast(Helper, Function(fn))


inf = math.inf
nan = math.nan


def cdiv(a: int, b: int) -> int:
    """Return a / b, rounded up.

    Example:
        assert tj.cdiv(7, 2) == 4
    """
    return -(-a // b)


def tile_order(t: int, shape: Sequence[int], group: int = 8) -> tuple[int, int]:
    """Return the (row, column) of tile `t` in an order in which tiles with close numbers are close in the grid.

    Tiles are numbered one group of rows after another, column by column within a group; the last group may have fewer
    rows. CTAs that run at the same time therefore share rows and columns, which stay in the cache.

    t: the number of the tile, from 0 to rows * columns - 1.
    shape: the (rows, columns) of the grid of tiles.
    group: the number of rows in a group.

    Example:
        assert [tj.tile_order(t, (3, 2), group=2) for t in range(6)] == [
            (0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)
        ]
    """
    rows, columns = shape
    first = t // (group * columns) * group
    height = min(rows - first, group)
    within = t % (group * columns)
    return first + within % height, within // height


def next_power_of_2(n: int) -> int:
    """Return the least power of two that is at least `n`; 1 for n below 1.

    Example:
        assert tj.next_power_of_2(33) == 64
    """
    return 1 << max(n - 1, 0).bit_length()


def static_assert(condition: object, message: str = "") -> None:
    """Raise KernelTypeError unless the condition holds; in a kernel, it is evaluated at compile time.

    Example:
        tj.static_assert(32 % 8 == 0, "rows must divide into vectors")
    """
    if not condition:
        raise KernelTypeError(
            f"static_assert failed{': ' + message if message else ''}", hint="change the values that it tests"
        )
