"""Made by `pytest tests/types --bless`, from the records of the language: don't edit it."""

# mypy: disable-error-code="overload-overlap"
# ruff: noqa
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

from numpy.typing import DTypeLike

from . import kernels as kernels
from . import sanitize as sanitize
from .ahead import (
    CompiledKernel as CompiledKernel,
    load_compiled as load_compiled,
)
from .compiled import (
    Compiled as Compiled,
)
from .dtypes import (
    float4_e2m1fn_x2 as float4_e2m1fn_x2,
    int4x2 as int4x2,
    uint4x2 as uint4x2,
)
from .errors import (
    AsyncHazardError as AsyncHazardError,
    CacheWarning as CacheWarning,
    DeadlockError as DeadlockError,
    DeviceAssertionError as DeviceAssertionError,
    DeviceCheckError as DeviceCheckError,
    DeviceError as DeviceError,
    DispatchError as DispatchError,
    DivergenceError as DivergenceError,
    DivisionByZeroError as DivisionByZeroError,
    GridWarning as GridWarning,
    KernelSyntaxError as KernelSyntaxError,
    KernelTypeError as KernelTypeError,
    LaunchError as LaunchError,
    LayoutError as LayoutError,
    MisalignedError as MisalignedError,
    OutOfBoundsError as OutOfBoundsError,
    OutsideWarning as OutsideWarning,
    PerformanceWarning as PerformanceWarning,
    PrecisionWarning as PrecisionWarning,
    RaceError as RaceError,
    ResourceError as ResourceError,
    SimulatedAssertionError as SimulatedAssertionError,
    SimulationError as SimulationError,
    TilejitError as TilejitError,
    UninitializedReadError as UninitializedReadError,
    UnsupportedInstructionError as UnsupportedInstructionError,
)
from .frontend.annotations import (
    Barrier as _Barrier,
    ElementType as _ElementType,
    Gather as _Gather,
    NamedBarrier as _NamedBarrier,
    Region as Region,
    RegionElement as _RegionElement,
    Ring as _Ring,
    RingStep as _RingStep,
    Scalar as Scalar,
    Tensor as Tensor,
    Tile as Tile,
    TypedScalar as _TypedScalar,
)
from .frontend.language import (
    Spec as Spec,
    cdiv as cdiv,
    function as function,
    inf as inf,
    nan as nan,
    next_power_of_2 as next_power_of_2,
    spec as spec,
    static_assert as static_assert,
    tile_order as tile_order,
)
from .jit import (
    Kernel as Kernel,
    kernel as kernel,
    no_recompile as no_recompile,
    simulate as simulate,
)
from .launches import (
    PreparedLaunch as PreparedLaunch,
)
from .layout import (
    R as R,
    S as S,
    Swizzle as Swizzle,
    TCol as TCol,
    TLane as TLane,
    TileLayout as TileLayout,
    atom_layout as _atom_layout,
    datapath as _datapath,
    laneid as laneid,
    layout_a as _layout_a,
    layout_a as _layout_a,
    layout_b as _layout_b,
    layout_c as _layout_c,
    layout_c as _layout_c,
    m as m,
    tid_in_wg as tid_in_wg,
    tx as tx,
    warpid as warpid,
    wgid as wgid,
    wid_in_wg as wid_in_wg,
)
from .lower.ask import (
    dispatch as dispatch,
    operand as operand,
    sym as sym,
)
from .nibbles import (
    interleave4 as interleave4,
    pack as pack,
)
from .precompile import (
    compile_many as compile_many,
)
from .runtime.arrays import (
    DeviceArray as DeviceArray,
)
from .runtime.devices import (
    device as device,
    empty as empty,
    num_sms as num_sms,
    release_scratch as release_scratch,
    synchronize as synchronize,
    to_device as to_device,
    use_device as use_device,
)
from .tuning import (
    Config as Config,
    autotune as autotune,
    choose as choose,
)

_Same = TypeVar("_Same")
_Value = TypeVar("_Value", bound=Tile | float)

__version__: str
__all__ = [
    "AsyncHazardError", "CacheWarning", "Compiled", "CompiledKernel", "Config", "DType", "DeadlockError",
    "DeviceArray", "DeviceAssertionError", "DeviceCheckError", "DeviceError", "DispatchError", "DivergenceError",
    "DivisionByZeroError", "GridWarning", "Kernel", "KernelSyntaxError", "KernelTypeError", "LaunchError",
    "LayoutError", "MisalignedError", "OutOfBoundsError", "OutsideWarning", "PerformanceWarning", "PrecisionWarning",
    "PreparedLaunch", "R", "RaceError", "Region", "ResourceError", "S", "Scalar", "SimulatedAssertionError",
    "SimulationError", "Spec", "Swizzle", "TCol", "TLane", "Tensor", "Tile", "TileLayout", "TilejitError",
    "UninitializedReadError", "UnsupportedInstructionError", "autotune", "bfloat16", "bool_", "cdiv", "choose",
    "compile_many", "constexpr", "device", "dispatch", "empty", "float16", "float32", "float4_e2m1fn_x2", "float64",
    "float8_e4m3fn", "float8_e5m2", "function", "inf", "int16", "int32", "int4x2", "int64", "int8", "interleave4",
    "kernel", "laneid", "load_compiled", "m", "nan", "next_power_of_2", "no_recompile", "num_sms", "operand", "pack",
    "release_scratch", "simulate", "spec", "static_assert", "sym", "synchronize", "tid_in_wg", "tile_order",
    "to_device", "tx", "uint16", "uint32", "uint4x2", "uint64", "uint8", "use_device", "warpid", "wgid", "wid_in_wg",
]

constexpr: TypeAlias = Any
DType: TypeAlias = _ElementType

class bool_(_TypedScalar): ...
class int8(_TypedScalar): ...
class int16(_TypedScalar): ...
class int32(_TypedScalar): ...
class int64(_TypedScalar): ...
class uint8(_TypedScalar): ...
class uint16(_TypedScalar): ...
class uint32(_TypedScalar): ...
class uint64(_TypedScalar): ...
class float16(_TypedScalar): ...
class bfloat16(_TypedScalar): ...
class float32(_TypedScalar): ...
class float64(_TypedScalar): ...
class float8_e4m3fn(_TypedScalar): ...
class float8_e5m2(_TypedScalar): ...

class _Operations:
    def copy(self, dst: Region | Tile, src: Region | Tile, fill: float = 0, variant: str | None = None, require_bits: int | None = None, cache: Literal["evict_first", "evict_last", "streaming"] | None = None, mask: Tile | bool | None = None) -> None:
        """dst = src, of one dtype; elements outside a global tensor or a mask read as fill and are not written.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.copy(x, A[0:32, 0:8])
        """
    def copy_async(self, dst: Region | Tile, src: Region | Tile, fill: float = 0, barrier: _Barrier | _RingStep | None = None, multicast: Literal[0, 1, 2] | None = None, variant: str | None = None, require_bits: int | None = None, cache: Literal["evict_first", "evict_last"] | None = None, l2: Literal["64B", "128B", "256B"] | None = None) -> None:
        """like copy, but complete only after the kernel has waited for it.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.copy_async(x, A[0:32, 0:8])
        """
    def fill(self, dst: Region | Tile, value: float, variant: str | None = None) -> None:
        """dst = one value.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fill(x, 1.5)
        """
    def cast(self, dst: Region | Tile, src: Region | Tile, variant: str | None = None, saturate: bool = True) -> None:
        """dst = src converted to dst's dtype.

        Example:
            x = tj.alloc_shared((32, 8), tj.float16)
            tj.thread.cast(x, A[0:32, 0:8])
        """
    def reshape(self, dst: Region | Tile, src: Region | Tile, variant: str | None = None) -> None:
        """dst = the elements of src in row-major order, in another shape.

        Example:
            x = tj.alloc_local((32, 8), tj.float32, layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])
            tj.warp.reshape(x, tj.warp.load(A[0:32, 0:8]).reshape((4, 64)))
        """
    def indices(self, shape: int | Sequence[int], axis: int, layout: TileLayout | None = None) -> Tile:
        """a local tile of int32: each element's index along an axis.

        Example:
            y = tj.thread.load(A[0:32, 0:8])
            x = tj.thread.indices((32, 8), 0) * y
        """
    def add(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = add(...): x + y; integers wrap.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.add(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def sub(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = sub(...): x - y; integers wrap.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.sub(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def mul(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = mul(...): x * y; integers wrap.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.mul(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def fma(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, c: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fma(...): x * y + z, rounded once in the type of the computation.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fma(x, A[0:32, 0:8], A[0:32, 0:8], A[0:32, 0:8])
        """
    def neg(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = neg(...): -x; integers wrap.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.neg(x, A[0:32, 0:8])
        """
    def abs(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = abs(...): |x|; the minimum of a signed integer type is unchanged.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.abs(x, A[0:32, 0:8])
        """
    def sign(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = sign(...): 1 if x > 0, -1 if x < 0, 0 if x is 0 or -0.0; nan stays nan.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.sign(x, A[0:32, 0:8])
        """
    def div(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = div(...): x / y, correctly rounded; integers divide in float32.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.div(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def floor(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = floor(...): the greatest integer not above x.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.floor(x, A[0:32, 0:8])
        """
    def ceil(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = ceil(...): the least integer not below x.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.ceil(x, A[0:32, 0:8])
        """
    def round(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = round(...): the integer nearest to x, ties to even.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.round(x, A[0:32, 0:8])
        """
    def trunc(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = trunc(...): x rounded to an integer toward zero; integers are unchanged.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.trunc(x, A[0:32, 0:8])
        """
    def floordiv(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = floordiv(...): x // y, rounded down; integer division by 0 gives 0, and is an error for scalars in checked builds.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.floordiv(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def mod(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = mod(...): x % y, with the sign of y; integers modulo 0 as for //.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.mod(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def relu(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = relu(...): x if x > 0, else 0; nan stays nan.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.relu(x, A[0:32, 0:8])
        """
    def maximum(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = maximum(...): the greater of x and y; nan if either is nan.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.maximum(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def minimum(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = minimum(...): the lesser of x and y; nan if either is nan.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.minimum(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def clamp(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, c: Region | Tile | float, variant: str | None = None) -> None:
        """dst = clamp(...): minimum(maximum(x, low), high).

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.clamp(x, A[0:32, 0:8], A[0:32, 0:8], A[0:32, 0:8])
        """
    def sqrt(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = sqrt(...): square root, correctly rounded.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.sqrt(x, A[0:32, 0:8])
        """
    def rsqrt(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = rsqrt(...): 1 / sqrt(x).

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.rsqrt(x, A[0:32, 0:8])
        """
    def reciprocal(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = reciprocal(...): 1 / x, correctly rounded.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.reciprocal(x, A[0:32, 0:8])
        """
    def hypot(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = hypot(...): sqrt(x**2 + y**2), without intermediate overflow.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.hypot(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def exp(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = exp(...): e to the power x.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.exp(x, A[0:32, 0:8])
        """
    def exp2(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = exp2(...): 2 to the power x.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.exp2(x, A[0:32, 0:8])
        """
    def sigmoid(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = sigmoid(...): 1 / (1 + exp(-x)).

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.sigmoid(x, A[0:32, 0:8])
        """
    def silu(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = silu(...): x / (1 + exp(-x)); nan at -inf.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.silu(x, A[0:32, 0:8])
        """
    def tanh(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = tanh(...): hyperbolic tangent.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.tanh(x, A[0:32, 0:8])
        """
    def expm1(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = expm1(...): exp(x) - 1, accurate near 0.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.expm1(x, A[0:32, 0:8])
        """
    def log(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = log(...): natural logarithm.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.log(x, A[0:32, 0:8])
        """
    def log2(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = log2(...): logarithm to base 2.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.log2(x, A[0:32, 0:8])
        """
    def pow(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = pow(...): x to the power y; integers wrap, and a negative y gives 1 / x**-y truncated toward zero, 0 for x = 0.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.pow(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def softplus(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = softplus(...): log(1 + exp(x)).

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.softplus(x, A[0:32, 0:8])
        """
    def log1p(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = log1p(...): log(1 + x), accurate near 0.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.log1p(x, A[0:32, 0:8])
        """
    def sin(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = sin(...): sine of x radians.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.sin(x, A[0:32, 0:8])
        """
    def cos(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = cos(...): cosine of x radians.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.cos(x, A[0:32, 0:8])
        """
    def atan2(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = atan2(...): the angle of the point (x, y) in radians, from -pi to pi.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.atan2(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def erf(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = erf(...): error function.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.erf(x, A[0:32, 0:8])
        """
    def gelu(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = gelu(...): x/2 * (1 + erf(x / sqrt(2))); nan at -inf.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.gelu(x, A[0:32, 0:8])
        """
    def fast_exp2(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_exp2(...): 2 to the power x, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_exp2(x, A[0:32, 0:8])
        """
    def fast_exp(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_exp(...): e to the power x, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_exp(x, A[0:32, 0:8])
        """
    def fast_log2(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_log2(...): logarithm to base 2, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_log2(x, A[0:32, 0:8])
        """
    def fast_log(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_log(...): natural logarithm, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_log(x, A[0:32, 0:8])
        """
    def fast_sin(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_sin(...): sine, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_sin(x, A[0:32, 0:8])
        """
    def fast_cos(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_cos(...): cosine, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_cos(x, A[0:32, 0:8])
        """
    def fast_tanh(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_tanh(...): hyperbolic tangent, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_tanh(x, A[0:32, 0:8])
        """
    def fast_sqrt(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_sqrt(...): square root, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_sqrt(x, A[0:32, 0:8])
        """
    def fast_rsqrt(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_rsqrt(...): 1 / sqrt(x), approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_rsqrt(x, A[0:32, 0:8])
        """
    def fast_reciprocal(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_reciprocal(...): 1 / x, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_reciprocal(x, A[0:32, 0:8])
        """
    def fast_div(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = fast_div(...): x / y, approximated by the hardware.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.fast_div(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def bitwise_not(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = bitwise_not(...): ~x; logical negation for bool_.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.bitwise_not(x, A[0:32, 0:8])
        """
    def bitwise_and(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = bitwise_and(...): x & y.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.bitwise_and(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def bitwise_or(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = bitwise_or(...): x | y.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.bitwise_or(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def bitwise_xor(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = bitwise_xor(...): x ^ y.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.bitwise_xor(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def left_shift(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = left_shift(...): x << y; 0 if y is not in 0 .. bits-1.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.left_shift(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def right_shift(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = right_shift(...): x >> y; if y is not in 0 .. bits-1, -1 for negative x, else 0.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.right_shift(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def popcount(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = popcount(...): the number of bits of x that are 1.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.popcount(x, A[0:32, 0:8])
        """
    def clz(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = clz(...): the number of leading zeros of x; the width of x for 0.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.clz(x, A[0:32, 0:8])
        """
    def brev(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = brev(...): the bits of x in reverse order.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.brev(x, A[0:32, 0:8])
        """
    def equal(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = equal(...): x == y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.equal(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def not_equal(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = not_equal(...): x != y; true for nan.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.not_equal(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def less(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = less(...): x < y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.less(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def less_equal(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = less_equal(...): x <= y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.less_equal(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def greater(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = greater(...): x > y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.greater(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def greater_equal(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = greater_equal(...): x >= y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.greater_equal(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def isnan(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = isnan(...): true for nan.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.isnan(x, A[0:32, 0:8])
        """
    def isinf(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = isinf(...): true for infinities of either sign.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.isinf(x, A[0:32, 0:8])
        """
    def isfinite(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = isfinite(...): true unless x is nan or infinite.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.isfinite(x, A[0:32, 0:8])
        """
    def logical_not(self, dst: Region | Tile, src: Region | Tile | float, variant: str | None = None) -> None:
        """dst = logical_not(...): not x.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.logical_not(x, A[0:32, 0:8])
        """
    def logical_and(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = logical_and(...): x and y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.logical_and(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def logical_or(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = logical_or(...): x or y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.logical_or(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def where(self, dst: Region | Tile, cond: Region | Tile | float, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = where(...): x where the condition holds, else y.

        Example:
            x = tj.alloc_shared((32, 8), tj.float32)
            tj.thread.where(x, True, A[0:32, 0:8], A[0:32, 0:8])
        """
    def random_bits(self, dst: Region | Tile, a: Region | Tile | float, b: Region | Tile | float, variant: str | None = None) -> None:
        """dst = random_bits(...): word offset % 4 of block offset // 4 of Philox 4x32-10 with the key seed: the same on all devices.

        Example:
            x = tj.alloc_shared((32, 8), tj.int32)
            tj.thread.random_bits(x, A[0:32, 0:8], A[0:32, 0:8])
        """
    def sum(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: the sum; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

        Example:
            x = tj.alloc_local((32,), tj.float32)
            tj.thread.sum(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def max(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: the maximum; nan if any is nan.

        Example:
            x = tj.alloc_local((32,), tj.float32)
            tj.thread.max(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def min(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: the minimum; nan if any is nan.

        Example:
            x = tj.alloc_local((32,), tj.float32)
            tj.thread.min(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def prod(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: the product; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

        Example:
            x = tj.alloc_local((32,), tj.float32)
            tj.thread.prod(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def any(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: whether any element is nonzero.

        Example:
            x = tj.alloc_local((32,), tj.bool_)
            tj.thread.any(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def all(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: whether all elements are nonzero.

        Example:
            x = tj.alloc_local((32,), tj.bool_)
            tj.thread.all(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def argmax(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: the index of the first nan, else of the first maximum, as int32.

        Example:
            x = tj.alloc_local((32,), tj.int32)
            tj.thread.argmax(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def argmin(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, variant: str | None = None) -> None:
        """dst = over axes of src: the index of the first nan, else of the first minimum, as int32.

        Example:
            x = tj.alloc_local((32,), tj.int32)
            tj.thread.argmin(x, tj.thread.load(A[0:32, 0:8]), axis=1)
        """
    def reduce(self, dst: Region | Tile, src: Tile, axis: int | tuple[int, ...] | None = None, combine: Callable[..., Any] | None = None, variant: str | None = None, dst2: Region | Tile | None = None, src2: Tile | None = None, dst3: Region | Tile | None = None, src3: Tile | None = None, dst4: Region | Tile | None = None, src4: Tile | None = None) -> None:
        """dst, dst2, ... = src, src2, ..., reduced over axes by one function, in the order of the elements.

        Example:
            def last(a, b): return tj.where(b != 0.0, b, a)
            x = tj.alloc_local((32,), tj.float32); tj.thread.reduce(x, tj.thread.load(A[0:32, 0:8]), 1, last)
        """
    def gemm_async(self, acc: Region | Tile, a: Region | Tile, b: Region | Tile, accumulate: bool | None = None, barrier: _Barrier | _RingStep | None = None, precision: str | None = None, variant: str | None = None, scale_a: Region | Tile | None = None, scale_b: Region | Tile | None = None) -> None:
        """acc = a @ b, plus acc if accumulate; complete only after the kernel has waited for it.

        Example:
            x = tj.alloc_shared((64, 64), tj.float16, swizzle="128B"); acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
            tj.wg.gemm_async(acc, x, x, accumulate=False); tj.wgmma.wait(0)
        """
    def load(self, place: Region | _Gather, layout: TileLayout | None = None, mask: Tile | bool | None = None, fill: float = 0, cache: Literal["evict_first", "evict_last", "streaming"] | None = None) -> Tile:
        """a local tile with the contents of a place.

        Example:
            y = tj.thread.load(A[tj.thread_id(), 0:8], fill=1)
            x = tj.thread.load(A[tj.thread_id(), 0:8], mask=y > 0)
        """
    def store(self, place: Region | _Gather, tile: Tile, mask: Tile | bool | None = None, cache: Literal["evict_first", "evict_last", "streaming"] | None = None, variant: str | None = None) -> None:
        """write a local tile to a place.

        Example:
            x = tj.thread.load(A[tj.thread_id(), 0:8])
            tj.thread.store(A[tj.thread_id(), 0:8], x * 2)
        """
    def zeros(self, shape: int | Sequence[int], dtype: DType | DTypeLike, layout: TileLayout | None = None) -> Tile:
        """a local tile of zeros.

        Example:
            y = tj.thread.load(A[0:32, 0:8])
            x = tj.thread.zeros((32, 8), tj.float32) + y
        """
    def full(self, shape: int | Sequence[int], value: float | Tile, dtype: DType | DTypeLike, layout: TileLayout | None = None) -> Tile:
        """a local tile of one value.

        Example:
            y = tj.thread.load(A[0:32, 0:8])
            x = tj.thread.full((32, 8), 0.5, tj.float32) * y
        """
    def arrive(self, barrier: _Barrier) -> None:
        """arrive once per instance of the scope; accesses before it are ordered before those after the wait.

        Example:
            b = tj.alloc_barrier()
            tj.thread.arrive(b)
        """
    def commit(self, step: _RingStep) -> None:
        """report that each instance of the scope, a producer of the ring, has filled its part of the step.

        Example:
            ring = tj.alloc_ring(2)
            tj.cta.commit(ring[0])
        """
    def release(self, step: _RingStep) -> None:
        """report that each instance of the scope, a consumer of the ring, is done with the step.

        Example:
            ring = tj.alloc_ring(2)
            tj.cta.release(ring[0])
        """
    def scan(self, dst: Region | Tile | tuple[Any, ...], src: Region | Tile | tuple[Any, ...], axis: int, combine: Callable[..., Any], reverse: bool = False, exclusive: bool = False, initial: float | tuple[float, ...] | None = None) -> None:
        """dst = each element of src combined with all that precede it along an axis, by a function that must be associative but needn't be commutative; for tuples of tiles, the function combines tuples. The compiler chooses the grouping, such as (a + b) + (c + d) or ((a + b) + c) + d, once for each compiled kernel, so sums of floats may differ in the last bits from those of a loop. Costs per thread: for each run of its elements and each 32 bits at most log2(lanes) + log2(warps) + 1 shuffles, and one barrier if warps share rows.

        Example:
            def last(a, b): return tj.where(b > 2.0, b, a)
            x = tj.alloc_shared((32, 8), tj.float32); tj.thread.scan(x, A[0:32, 0:8], 1, last)
        """
    def cumsum(self, dst: Region | Tile | tuple[Any, ...], src: Region | Tile | tuple[Any, ...], axis: int, reverse: bool = False, exclusive: bool = False) -> None:
        """dst = for each prefix along an axis of src: the sum; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

        Example:
            x = tj.thread.load(A[tj.thread_id(), 0:8])
            tj.thread.cumsum(A[tj.thread_id(), 0:8], x, axis=-1)
        """
    def cumprod(self, dst: Region | Tile | tuple[Any, ...], src: Region | Tile | tuple[Any, ...], axis: int, reverse: bool = False, exclusive: bool = False) -> None:
        """dst = for each prefix along an axis of src: the product; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

        Example:
            x = tj.thread.load(A[tj.thread_id(), 0:8])
            tj.thread.cumprod(A[tj.thread_id(), 0:8], x, axis=-1)
        """
    def cummax(self, dst: Region | Tile | tuple[Any, ...], src: Region | Tile | tuple[Any, ...], axis: int, reverse: bool = False, exclusive: bool = False) -> None:
        """dst = for each prefix along an axis of src: the maximum; nan if any is nan.

        Example:
            x = tj.thread.load(A[tj.thread_id(), 0:8])
            tj.thread.cummax(A[tj.thread_id(), 0:8], x, axis=-1)
        """
    def cummin(self, dst: Region | Tile | tuple[Any, ...], src: Region | Tile | tuple[Any, ...], axis: int, reverse: bool = False, exclusive: bool = False) -> None:
        """dst = for each prefix along an axis of src: the minimum; nan if any is nan.

        Example:
            x = tj.thread.load(A[tj.thread_id(), 0:8])
            tj.thread.cummin(A[tj.thread_id(), 0:8], x, axis=-1)
        """

class _Thread(_Operations):
    ...

thread: _Thread

class _Warp(_Operations):
    def gemm(self, acc: Region | Tile, a: Region | Tile, b: Region | Tile, precision: str | None = None, variant: str | None = None) -> None:
        """acc += a @ b on tensor cores.

        Example:
            acc = tj.alloc_local((16, 8), tj.float32, layout=tj.mma.layout_c((16, 8), tj.float32)); tj.warp.fill(acc, 0)
            tj.warp.gemm(acc, a, b)
        """

warp: _Warp

class _Warpgroup(_Operations):
    def gemm(self, acc: Region | Tile, a: Region | Tile, b: Region | Tile, precision: str | None = None, variant: str | None = None) -> None:
        """acc += a @ b on tensor cores.

        Example:
            acc = tj.alloc_local((16, 8), tj.float32, layout=tj.mma.layout_c((16, 8), tj.float32)); tj.warp.fill(acc, 0)
            tj.warp.gemm(acc, a, b)
        """

warpgroup: _Warpgroup

wg: _Warpgroup

class _Cta(_Operations):
    def gemm(self, acc: Region | Tile, a: Region | Tile, b: Region | Tile, precision: str | None = None, variant: str | None = None) -> None:
        """acc += a @ b on tensor cores.

        Example:
            acc = tj.alloc_local((16, 8), tj.float32, layout=tj.mma.layout_c((16, 8), tj.float32)); tj.warp.fill(acc, 0)
            tj.warp.gemm(acc, a, b)
        """

cta: _Cta

class _Tcgen05:
    atom_layout = staticmethod(_atom_layout)
    def wait_ld(self) -> None:
        """Wait for this thread's loads from tensor memory.

        Example:
            x = tj.alloc_tmem((128, 8), tj.float32)
            tj.tcgen05.wait_ld()
        """
    def wait_st(self) -> None:
        """Wait for this thread's stores to tensor memory.

        Example:
            x = tj.alloc_tmem((128, 8), tj.float32)
            tj.tcgen05.wait_st()
        """

tcgen05: _Tcgen05

class _Tmem:
    datapath = staticmethod(_datapath)

tmem: _Tmem

class _Mma:
    layout_a = staticmethod(_layout_a)
    layout_b = staticmethod(_layout_b)
    layout_c = staticmethod(_layout_c)

mma: _Mma

class _Wgmma:
    layout_a = staticmethod(_layout_a)
    layout_c = staticmethod(_layout_c)
    def wait(self, n: int) -> None:
        """Wait until at most the n latest gemm_async calls of this warpgroup are unfinished.

        Example:
            x = tj.alloc_shared((64, 64), tj.float16, swizzle="128B"); acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64))); tj.wg.gemm_async(acc, x, x, accumulate=False)
            tj.wgmma.wait(0)
        """

wgmma: _Wgmma

class _Cluster:
    def id(self, axis: int = 0) -> Scalar:
        """Return the index of this CTA's cluster in the grid of clusters along an axis.

        Example:
            i = tj.cluster.id(0)
            A[i, 0] = 1.0
        """
    def rank(self, axis: int | None = None) -> Scalar:
        """Return the index of this CTA in its cluster, along one axis or over all; 0 in a kernel without cluster=.

        Example:
            i = tj.cluster.rank()
            A[i, 0] = 1.0
        """
    def size(self, axis: int | None = None) -> int:
        """Return the number of CTAs in a cluster, along one axis or in total, at compile time.

        Example:
            i = tj.cta_id(0) // tj.cluster.size(0)
            A[i, 0] = 1.0
        """

cluster: _Cluster

class _Atomic:
    @overload
    def add(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def add(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically add value to the place, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.add(H[0, 0], i)
        """
    @overload
    def sub(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def sub(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically subtract value from the place, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.sub(H[0, 0], i)
        """
    @overload
    def max(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def max(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically set the place to the greater of it and value, nan if either is nan, where 0.0 > -0.0, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.max(H[0, 0], i)
        """
    @overload
    def min(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def min(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically set the place to the lesser of it and value, nan if either is nan, where -0.0 < 0.0, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.min(H[0, 0], i)
        """
    @overload
    def and_(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def and_(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically set the place to its bitwise AND with value, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.and_(H[0, 0], i)
        """
    @overload
    def or_(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def or_(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically set the place to its bitwise OR with value, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.or_(H[0, 0], i)
        """
    @overload
    def xor(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def xor(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically set the place to its bitwise XOR with value, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.xor(H[0, 0], i)
        """
    @overload
    def exch(self, place: _RegionElement, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def exch(self, place: Region | _Gather, value: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically set the place to value, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.exch(H[0, 0], i)
        """
    @overload
    def cas(self, place: _RegionElement, expected: float | Tile, desired: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Scalar: ...
    @overload
    def cas(self, place: Region | _Gather, expected: float | Tile, desired: float | Tile, order: Literal["relaxed", "acquire", "release", "acq_rel"] = 'relaxed', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', mask: Tile | bool | None = None) -> Tile:
        """Atomically set the place to desired if it equals expected, and return the old value. Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits or more add, sub, max, min and exch work.

        Example:
            i = tj.thread_id()
            before = tj.atomic.cas(H[0, 0], 0, i)
        """

atomic: _Atomic

class _Cp_async:
    def commit(self) -> None:
        """Group the copies that this thread has started since the last commit.

        Example:
            tj.cta.copy_async(tj.alloc_shared((32, 8), tj.float32), A[0:32, 0:8])
            tj.cp_async.commit()
        """
    def wait(self, n: int) -> None:
        """Wait until at most n of the groups that this thread committed are unfinished.

        Example:
            tj.cp_async.commit()
            tj.cp_async.wait(0)
        """

cp_async: _Cp_async

class _Bulk:
    def wait_read(self, n: int) -> None:
        """Wait until at most n groups of bulk copies of this thread have yet to read their source.

        Example:
            tj.bulk.wait_read(0)
            tj.cta_sync()
        """
    def wait(self, n: int) -> None:
        """Wait until at most n groups of bulk copies of this thread are unfinished.

        Example:
            tj.bulk.wait_read(1)
            tj.bulk.wait(0)
        """

bulk: _Bulk

class _Fast:
    def exp2(self, x: _Value) -> _Value:
        """2 to the power x, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.exp2(x)
        """
    def exp(self, x: _Value) -> _Value:
        """e to the power x, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.exp(x)
        """
    def log2(self, x: _Value) -> _Value:
        """logarithm to base 2, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.log2(x)
        """
    def log(self, x: _Value) -> _Value:
        """natural logarithm, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.log(x)
        """
    def sin(self, x: _Value) -> _Value:
        """sine, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.sin(x)
        """
    def cos(self, x: _Value) -> _Value:
        """cosine, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.cos(x)
        """
    def tanh(self, x: _Value) -> _Value:
        """hyperbolic tangent, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.tanh(x)
        """
    def sqrt(self, x: _Value) -> _Value:
        """square root, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.sqrt(x)
        """
    def rsqrt(self, x: _Value) -> _Value:
        """1 / sqrt(x), approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.rsqrt(x)
        """
    def reciprocal(self, x: _Value) -> _Value:
        """1 / x, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.reciprocal(x)
        """
    @overload
    def div(self, x: float, y: float) -> Scalar: ...
    @overload
    def div(self, x: Tile | float, y: Tile | float) -> Tile:
        """x / y, approximated by the hardware.

        Example:
            x = tj.cta.load(A[0:32, 0:8])
            y = tj.fast.div(x, x)
        """

fast: _Fast

def alloc_shared(shape: int | Sequence[int], dtype: DType | DTypeLike, layout: TileLayout | None = None, swizzle: Literal["32B", "64B", "128B"] | Swizzle | None = None) -> Region:
    """Allocate shared memory.

    Example:
        x = tj.alloc_shared((32, 8), tj.float32)
        tj.cta.copy(x, A[0:32, 0:8])
    """
def alloc_local(shape: int | Sequence[int], dtype: DType | DTypeLike, layout: TileLayout | None = None) -> Tile:
    """Allocate a tile in registers.

    Example:
        x = tj.alloc_local((8,), tj.float32)
        tj.thread.copy(x, A[0, 0:8])
    """
def alloc_tmem(shape: int | Sequence[int], dtype: DType | DTypeLike, layout: TileLayout | None = None) -> Region:
    """Allocate tensor memory; needs sm_100a or sm_103a or sm_110a.

    Example:
        x = tj.alloc_tmem((128, 8), tj.float32)
        y = x[0:128, 0:4]
    """
def scratch(shape: int | Sequence[int], dtype: DType | DTypeLike, zeroed: bool = False) -> Region:
    """Return an array in global memory that each launch allocates, with undefined contents; launches on one stream share the memory, but the calls in a kernel don't.

    Example:
        x = tj.scratch((tj.num_ctas(0) * 32, 8), tj.float32)
        tj.cta.copy(x[0:32, 0:8], A[0:32, 0:8])
    """
def assume_in_bounds(region: Region) -> Region:
    """Return the region, assumed to lie within its tensor; accesses are not masked.

    Example:
        i = tj.cta_id(0)
        x = tj.cta.load(tj.assume_in_bounds(A.tile((32, 8), (i, 0))))
    """
def alloc_barrier(arrivals: int = 1, stages: int | None = None) -> _Barrier:
    """Allocate a barrier in shared memory, or several, used as b[i]; needs sm_90 or newer.

    Example:
        b = tj.alloc_barrier(arrivals=4)
        tj.warp.arrive(b)
    """
def alloc_ring(stages: int, producers: int = 1, consumers: int = 1, multicast: int | None = None) -> _Ring:
    """Allocate a ring of stages that producers fill and consumers empty; ring[i] is step i, which uses stage i % stages; needs sm_90 or newer.

    Example:
        ring = tj.alloc_ring(2)
        ring[0].acquire()
    """
def named_barrier(id: int, threads: int) -> _NamedBarrier:
    """Return the CTA's barrier number `id`, at which some of its warps can synchronize.

    Example:
        A[tj.thread_id(), 0] = 1.0
        tj.named_barrier(1, 128).sync()
    """
def set_registers(n: int) -> None:
    """Set the number of registers of each thread of the warpgroup from here on.

    Example:
        if tj.warpgroup_id() == 0:
            tj.set_registers(24)
    """
def cta_id(axis: int = 0) -> Scalar:
    """Return the index of this CTA in the grid along an axis.

    Example:
        i = tj.cta_id(0)
        A[i, 0] = 1.0
    """
def num_ctas(axis: int = 0) -> Scalar:
    """Return the number of CTAs in the grid along an axis.

    Example:
        i = tj.num_ctas(0)
        A[i, 0] = 1.0
    """
def thread_id() -> Scalar:
    """Return the index of this thread in its CTA.

    Example:
        i = tj.thread_id()
        A[i, 0] = 1.0
    """
def num_threads() -> int:
    """Return the number of threads in a CTA, at compile time.

    Example:
        i = tj.cta_id(0) * tj.num_threads() + tj.thread_id()
        A[i, 0] = 1.0
    """
def lane_id() -> Scalar:
    """Return the index of this thread in its warp.

    Example:
        i = tj.lane_id()
        A[i, 0] = 1.0
    """
def warp_id() -> Scalar:
    """Return the index of this warp in its CTA.

    Example:
        i = tj.warp_id()
        A[i, 0] = 1.0
    """
def warpgroup_id() -> Scalar:
    """Return the index of this warpgroup in its CTA.

    Example:
        i = tj.warpgroup_id()
        A[i, 0] = 1.0
    """
def static_range(start: int, stop: int | None = None, step: int | None = None) -> range:
    """Return a range whose loop is unrolled; the index is known at compile time.

    Example:
        for k in tj.static_range(8):
            A[0, k] = 1.0
    """
def elect() -> bool:
    """Return True in exactly one thread of each warp.

    Example:
        if tj.elect():
            A[tj.warp_id(), 0] = 1.0
    """
@overload
def mean(x: Tile, axis: None = None, keepdims: Literal[False] = False) -> Scalar: ...
@overload
def mean(x: Tile, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tile:
    """over axes of a tile: the sum divided by the number of elements; float32 for integers and bool_; float16 and bfloat16 are computed in float32 and rounded once.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.mean(x, axis=1)
    """
@overload
def var(x: Tile, axis: None = None, ddof: int = 0, keepdims: Literal[False] = False) -> Scalar: ...
@overload
def var(x: Tile, axis: int | tuple[int, ...] | None = None, ddof: int = 0, keepdims: bool = False) -> Tile:
    """over axes of a tile: the mean square of the differences from the mean, in two passes; float32 for integers and bool_; float16 and bfloat16 are computed in float32 and rounded once.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.var(x, axis=1)
    """
@overload
def std(x: Tile, axis: None = None, ddof: int = 0, keepdims: Literal[False] = False) -> Scalar: ...
@overload
def std(x: Tile, axis: int | tuple[int, ...] | None = None, ddof: int = 0, keepdims: bool = False) -> Tile:
    """over axes of a tile: the square root of var; float32 for integers and bool_; float16 and bfloat16 are computed in float32 and rounded once.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.std(x, axis=1)
    """
def broadcast_to(x: Tile, shape: int | Sequence[int]) -> Tile:
    """Repeat a tile along axes of extent 1 and new leading axes, as NumPy does.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.broadcast_to(tj.max(x, axis=1, keepdims=True), (32, 8))
    """
def cat(a: Tile, b: Tile, axis: int) -> Tile:
    """Concatenate two tiles along an axis.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.cat(x, x, axis=1)
    """
def split(x: Tile, parts: int, axis: int) -> tuple[Tile, ...]:
    """Split a tile into equal parts along an axis.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        left, right = tj.split(x, 2, axis=1)
    """
def unpack(x: Tile, dtype: DType | DTypeLike, order: Literal["natural", "interleaved"] = 'natural') -> Tile:
    """Return the 4-bit numbers of a tile of int4x2, uint4x2 or float4_e2m1fn_x2, exactly; the last axis doubles, and the low half of a byte comes first.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.uint8).view(tj.int4x2)
        y = tj.unpack(x, tj.float16)
    """
def reduce(x: _Same, axis: int | tuple[int, ...] | None, combine: Callable[..., Any], keepdims: bool = False) -> _Same:
    """Combine the elements of a tile, or of a tuple of tiles, along axes with a function, which must be associative but needn't be commutative: elements stay in order. The compiler chooses the grouping, such as (a + b) + (c + d) or ((a + b) + c) + d, once for each compiled kernel, so sums of floats may differ in the last bits from those of a loop.

    Example:
        def last(a, b): return tj.where(b != 0.0, b, a)
        x = tj.reduce(tj.cta.load(A[0:32, 0:8]), 1, last)
    """
def scan(x: _Same, axis: int, combine: Callable[..., Any], reverse: bool = False, exclusive: bool = False, initial: float | tuple[float, ...] | None = None) -> _Same:
    """Scan a tile, or a tuple of tiles, by a function: dst = each element of src combined with all that precede it along an axis, by a function that must be associative but needn't be commutative; for tuples of tiles, the function combines tuples. The compiler chooses the grouping, such as (a + b) + (c + d) or ((a + b) + c) + d, once for each compiled kernel, so sums of floats may differ in the last bits from those of a loop. Costs per thread: for each run of its elements and each 32 bits at most log2(lanes) + log2(warps) + 1 shuffles, and one barrier if warps share rows.

    Example:
        def last(a, b): return tj.where(b != 0.0, b, a)
        x = tj.scan(tj.cta.load(A[0:32, 0:8]), 1, last)
    """
def sort(x: _Same, axis: int = -1, descending: bool = False) -> _Same:
    """Sort a tile along an axis, by `<`: zeros of both signs are ties, as are NaNs, which come last in both directions. Of a tuple of tiles, the first one is sorted, and the elements of the others move along; ties keep their order. Elements past the edge of a tensor are sorted, too, as the value of fill=: loaded with fill=tj.nan, or for integers with the last value of the order, they come last.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.sort(x)
    """
def argsort(x: Tile, axis: int = -1, descending: bool = False) -> Tile:
    """Return the indices that sort a tile along an axis, as int32, by `<`: zeros of both signs are ties, as are NaNs, which come last in both directions; ties keep their order. Elements past the edge of a tensor are sorted, too, as the value of fill=: loaded with fill=tj.nan, or for integers with the last value of the order, they come last.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.argsort(x, axis=1, descending=True)
    """
def top_k(x: Tile, k: int, axis: int = -1, largest: bool = True) -> tuple[Tile, Tile]:
    """Return the k largest elements along an axis, the largest first, and their indices, as int32; of ties the first ones, and NaNs only for lack of other elements. Elements past the edge of a tensor are sorted, too, as the value of fill=: loaded with fill=tj.nan, or for integers with the last value of the order, they come last.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        values, indices = tj.top_k(x, 3, axis=1)
    """
def gather(x: Tile, index: Tile, axis: int) -> Tile:
    """Return the elements of a tile at an index along an axis, as NumPy's take_along_axis; an index must be at least 0 and below the extent, which checked builds test.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.gather(x, 7 - tj.cta.indices((32, 8), 1), axis=1)
    """
def flip(x: Tile, axis: int) -> Tile:
    """Reverse the order of elements along an axis.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.flip(x, axis=1)
    """
def roll(x: Tile, shift: int, axis: int) -> Tile:
    """Shift elements along an axis; those shifted past one end come in at the other.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.roll(x, 1, axis=0)
    """
def histogram(x: Tile, bins: int, mask: Tile | bool | None = None) -> Tile:
    """Count the elements of each value from 0 to bins - 1, as int32; other values are not counted.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        counts = tj.histogram(x.astype(tj.int32), 16)
    """
@overload
def rand(seed: float, offset: float) -> Scalar: ...
@overload
def rand(seed: int | Tile, offset: int | Tile) -> Tile:
    """Return uniform float32 numbers in [0, 1): 24 bits of tj.random_bits, times 2**-24.

    Example:
        i = tj.cta_id(0) * 256 + tj.cta.indices((32, 8), 0) * 8 + tj.cta.indices((32, 8), 1)
        x = tj.rand(7, i)
    """
@overload
def randn(seed: float, offset: float) -> Scalar: ...
@overload
def randn(seed: int | Tile, offset: int | Tile) -> Tile:
    """Return normal float32 numbers, by Box and Muller's method, from the bits at an even offset and at the next one.

    Example:
        i = tj.cta_id(0) * 256 + tj.cta.indices((32, 8), 0) * 8 + tj.cta.indices((32, 8), 1)
        x = tj.randn(7, i)
    """
@overload
def randint(seed: float, offset: float, low: float, high: float) -> Scalar: ...
@overload
def randint(seed: int | Tile, offset: int | Tile, low: int, high: int) -> Tile:
    """Return int32 numbers in [low, high): low plus the 32 high bits of bits * (high - low).

    Example:
        i = tj.cta_id(0) * 256 + tj.cta.indices((32, 8), 0) * 8 + tj.cta.indices((32, 8), 1)
        x = tj.randint(7, i, 0, 6)
    """
def ptx(text: str, out: DType | DTypeLike | tuple[DType | DTypeLike, ...] = (), inputs: tuple[float | Tile, ...] = (), pure: bool | None = None) -> Any:
    """Run PTX instructions on scalars, or on each element of tiles that broadcast. In the text, $0, $1, ... are the outputs, then the inputs, and $$ is a dollar; names declared in braces are local. Types of up to 16 bits are in .b16 registers, extended by zeros or the sign, bool_ as 0 or 1, others in registers of their width. A literal int is an int32, a literal float a float32: write tj.int64(1) for another type. Instructions other than arithmetic, logic, conversions, selections and moves are volatile unless pure=True: they stay in place and in order with memory accesses, and on tiles, each thread that holds an element runs them for it.

    Example:
        x = tj.cta.load(A[0:32, 0:8]); y = tj.ptx("rcp.approx.f32 $0, $1;", out=tj.float32, inputs=(x,))
        i = tj.ptx("{ .reg .pred p; setp.ne.u16 p, $1, 0; selp.b32 $0, $2, 1, p; }", out=tj.int32, inputs=(x > 0.0, 7))
    """
def matmul(a: Tile, b: Tile, precision: Literal["tf32", "tf32x3", "ieee"] | None = None) -> Tile:
    """Multiply matrices, (M, K) by (K, N), as a @ b does: leading dimensions are batches, and acc += tj.matmul(...) adds in the registers of acc. float32 needs a precision. "tf32" rounds the factors to 10 bits of fraction. "tf32x3" takes three products of parts of the factors: the error is at most (2**-20 + K * 2**-22) * |a| @ |b| if no factor but 0 is below 2**-114, and infinities and NaN give what they do in float32, except an infinity times a number below 2**-136, which gives NaN. "ieee" takes no tensor cores: from acc, or 0, on, acc = fma(a[k], b[k], acc) for k = 0, 1, ..., K - 1.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.matmul(x, x.T, precision="tf32x3")
    """
@overload
def load_acquire(place: _RegionElement, scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu') -> Scalar: ...
@overload
def load_acquire(place: Region | _Gather, scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu') -> Tile:
    """Load an element with acquire semantics: writes before the release that stored it are visible after this load. A region becomes a tile of the calling thread, loaded an element at a time.

    Example:
        ready = tj.load_acquire(H[0, 0])
        later = tj.load_acquire(H[0, 1], scope="sys")
    """
def store_release(place: Region | _Gather, value: Tile | float, scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu') -> None:
    """Store an element with release semantics: a thread that acquires it sees the earlier writes of this thread. A region takes a tile of the calling thread, an element at a time.

    Example:
        if tj.thread_id() == 0:
            tj.store_release(H[0, 0], 1)
    """
@overload
def load_volatile(place: _RegionElement) -> Scalar: ...
@overload
def load_volatile(place: Region | _Gather) -> Tile:
    """Load an element from memory at every call; loads of it are never merged. A region becomes a tile of the calling thread, loaded an element at a time.

    Example:
        x = tj.load_volatile(H[0, 0])
        y = tj.load_volatile(H[0, 0])
    """
def wait(place: Region, condition: Callable[[Any], Any], order: Literal["acquire", "relaxed"] = 'acquire', scope: Literal["cta", "cluster", "gpu", "sys"] = 'gpu', timeout: int | None = None) -> Scalar:
    """Load an element until the condition holds for it, and return it. After the timeout, return the last value, for which the condition may not hold. On the simulator, time passes only while no thread can do anything else, and a wait that never ends is reported as a deadlock.

    Example:
        def is_set(x): return x >= 0
        y = tj.wait(H[0, 0], is_set)
    """
def fence(scope: Literal["cta", "cluster", "gpu", "sys"]) -> None:
    """Order this thread's accesses for the threads of a scope that synchronize with it through a flag.

    Example:
        A[tj.thread_id(), 0] = 1.0
        tj.fence("gpu")
    """
def cta_sync() -> None:
    """Wait for all threads of the CTA and order their memory accesses.

    Example:
        A[tj.thread_id(), 0] = 1.0
        tj.cta_sync()
    """
def warp_sync() -> None:
    """Wait for all threads of the warp and order their memory accesses.

    Example:
        A[tj.thread_id(), 0] = 1.0
        tj.warp_sync()
    """
def warpgroup_sync() -> None:
    """Wait for all threads of the warpgroup and order their memory accesses.

    Example:
        A[tj.thread_id(), 0] = 1.0
        tj.warpgroup_sync()
    """
def cluster_sync() -> None:
    """Wait for all threads of the cluster and order their memory accesses.

    Example:
        A[tj.thread_id(), 0] = 1.0
        tj.cluster_sync()
    """
def grid_sync() -> None:
    """Wait for all threads of the grid and order their memory accesses; needs cooperative=True.

    Example:
        A[tj.thread_id(), 0] = 1.0
        tj.grid_sync()
    """
def shuffle(x: float, lane: int) -> Scalar:
    """Return the value of x in another lane of the warp.

    Example:
        i = tj.thread_id()
        x = tj.shuffle(A[i, 0], 1)
    """
def shuffle_xor(x: float, mask: int) -> Scalar:
    """Return the value of x in the lane whose index is this lane's index XOR mask.

    Example:
        i = tj.thread_id()
        x = tj.shuffle_xor(A[i, 0], 1)
    """
def shuffle_up(x: float, distance: int) -> Scalar:
    """Return the value of x in the lane `distance` lower, or this lane's x if no such lane exists.

    Example:
        i = tj.thread_id()
        x = tj.shuffle_up(A[i, 0], 1)
    """
def shuffle_down(x: float, distance: int) -> Scalar:
    """Return the value of x in the lane `distance` higher, or this lane's x if no such lane exists.

    Example:
        i = tj.thread_id()
        x = tj.shuffle_down(A[i, 0], 1)
    """
def vote_any(condition: bool | Scalar) -> bool:
    """Return True if the condition holds in any lane of the warp.

    Example:
        i = tj.thread_id()
        x = tj.vote_any(A[i, 0] > 0)
    """
def vote_all(condition: bool | Scalar) -> bool:
    """Return True if the condition holds in every lane of the warp.

    Example:
        i = tj.thread_id()
        x = tj.vote_all(A[i, 0] > 0)
    """
def vote_ballot(condition: bool | Scalar) -> Scalar:
    """Return a uint32 whose bit i is the condition of lane i.

    Example:
        i = tj.thread_id()
        x = tj.vote_ballot(A[i, 0] > 0)
    """
def uniform(x: float, scope: Any) -> Scalar:
    """Return x, which must be equal in all threads of the scope; checked builds test that.

    Example:
        i = tj.thread_id()
        w = tj.uniform(i // 32, tj.warp)
    """
@overload
def add(x: float, y: float) -> Scalar: ...
@overload
def add(x: Tile | float, y: Tile | float) -> Tile:
    """x + y; integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.add(x, x)
    """
@overload
def sub(x: float, y: float) -> Scalar: ...
@overload
def sub(x: Tile | float, y: Tile | float) -> Tile:
    """x - y; integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.sub(x, x)
    """
@overload
def mul(x: float, y: float) -> Scalar: ...
@overload
def mul(x: Tile | float, y: Tile | float) -> Tile:
    """x * y; integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.mul(x, x)
    """
@overload
def fma(x: float, y: float, z: float) -> Scalar: ...
@overload
def fma(x: Tile | float, y: Tile | float, z: Tile | float) -> Tile:
    """x * y + z, rounded once in the type of the computation.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fma(x, x, x)
    """
def neg(x: _Value) -> _Value:
    """-x; integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.neg(x)
    """
def abs(x: _Value) -> _Value:
    """|x|; the minimum of a signed integer type is unchanged.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.abs(x)
    """
def sign(x: _Value) -> _Value:
    """1 if x > 0, -1 if x < 0, 0 if x is 0 or -0.0; nan stays nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.sign(x)
    """
@overload
def div(x: float, y: float) -> Scalar: ...
@overload
def div(x: Tile | float, y: Tile | float) -> Tile:
    """x / y, correctly rounded; integers divide in float32.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.div(x, x)
    """
def floor(x: _Value) -> _Value:
    """the greatest integer not above x.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.floor(x)
    """
def ceil(x: _Value) -> _Value:
    """the least integer not below x.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.ceil(x)
    """
def round(x: _Value) -> _Value:
    """the integer nearest to x, ties to even.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.round(x)
    """
def trunc(x: _Value) -> _Value:
    """x rounded to an integer toward zero; integers are unchanged.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.trunc(x)
    """
@overload
def floordiv(x: float, y: float) -> Scalar: ...
@overload
def floordiv(x: Tile | float, y: Tile | float) -> Tile:
    """x // y, rounded down; integer division by 0 gives 0, and is an error for scalars in checked builds.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.floordiv(x, x)
    """
@overload
def mod(x: float, y: float) -> Scalar: ...
@overload
def mod(x: Tile | float, y: Tile | float) -> Tile:
    """x % y, with the sign of y; integers modulo 0 as for //.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.mod(x, x)
    """
def relu(x: _Value) -> _Value:
    """x if x > 0, else 0; nan stays nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.relu(x)
    """
@overload
def maximum(x: float, y: float) -> Scalar: ...
@overload
def maximum(x: Tile | float, y: Tile | float) -> Tile:
    """the greater of x and y; nan if either is nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.maximum(x, x)
    """
@overload
def minimum(x: float, y: float) -> Scalar: ...
@overload
def minimum(x: Tile | float, y: Tile | float) -> Tile:
    """the lesser of x and y; nan if either is nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.minimum(x, x)
    """
@overload
def clamp(x: float, low: float, high: float) -> Scalar: ...
@overload
def clamp(x: Tile | float, low: Tile | float, high: Tile | float) -> Tile:
    """minimum(maximum(x, low), high).

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.clamp(x, x, x)
    """
def sqrt(x: _Value) -> _Value:
    """square root, correctly rounded.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.sqrt(x)
    """
def rsqrt(x: _Value) -> _Value:
    """1 / sqrt(x).

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.rsqrt(x)
    """
def reciprocal(x: _Value) -> _Value:
    """1 / x, correctly rounded.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.reciprocal(x)
    """
@overload
def hypot(x: float, y: float) -> Scalar: ...
@overload
def hypot(x: Tile | float, y: Tile | float) -> Tile:
    """sqrt(x**2 + y**2), without intermediate overflow.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.hypot(x, x)
    """
def exp(x: _Value) -> _Value:
    """e to the power x.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.exp(x)
    """
def exp2(x: _Value) -> _Value:
    """2 to the power x.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.exp2(x)
    """
def sigmoid(x: _Value) -> _Value:
    """1 / (1 + exp(-x)).

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.sigmoid(x)
    """
def silu(x: _Value) -> _Value:
    """x / (1 + exp(-x)); nan at -inf.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.silu(x)
    """
def tanh(x: _Value) -> _Value:
    """hyperbolic tangent.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.tanh(x)
    """
def expm1(x: _Value) -> _Value:
    """exp(x) - 1, accurate near 0.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.expm1(x)
    """
def log(x: _Value) -> _Value:
    """natural logarithm.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.log(x)
    """
def log2(x: _Value) -> _Value:
    """logarithm to base 2.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.log2(x)
    """
@overload
def pow(x: float, y: float) -> Scalar: ...
@overload
def pow(x: Tile | float, y: Tile | float) -> Tile:
    """x to the power y; integers wrap, and a negative y gives 1 / x**-y truncated toward zero, 0 for x = 0.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.pow(x, x)
    """
def softplus(x: _Value) -> _Value:
    """log(1 + exp(x)).

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.softplus(x)
    """
def log1p(x: _Value) -> _Value:
    """log(1 + x), accurate near 0.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.log1p(x)
    """
def sin(x: _Value) -> _Value:
    """sine of x radians.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.sin(x)
    """
def cos(x: _Value) -> _Value:
    """cosine of x radians.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.cos(x)
    """
@overload
def atan2(y: float, x: float) -> Scalar: ...
@overload
def atan2(y: Tile | float, x: Tile | float) -> Tile:
    """the angle of the point (x, y) in radians, from -pi to pi.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.atan2(x, x)
    """
def erf(x: _Value) -> _Value:
    """error function.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.erf(x)
    """
def gelu(x: _Value) -> _Value:
    """x/2 * (1 + erf(x / sqrt(2))); nan at -inf.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.gelu(x)
    """
def fast_exp2(x: _Value) -> _Value:
    """2 to the power x, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_exp2(x)
    """
def fast_exp(x: _Value) -> _Value:
    """e to the power x, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_exp(x)
    """
def fast_log2(x: _Value) -> _Value:
    """logarithm to base 2, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_log2(x)
    """
def fast_log(x: _Value) -> _Value:
    """natural logarithm, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_log(x)
    """
def fast_sin(x: _Value) -> _Value:
    """sine, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_sin(x)
    """
def fast_cos(x: _Value) -> _Value:
    """cosine, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_cos(x)
    """
def fast_tanh(x: _Value) -> _Value:
    """hyperbolic tangent, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_tanh(x)
    """
def fast_sqrt(x: _Value) -> _Value:
    """square root, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_sqrt(x)
    """
def fast_rsqrt(x: _Value) -> _Value:
    """1 / sqrt(x), approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_rsqrt(x)
    """
def fast_reciprocal(x: _Value) -> _Value:
    """1 / x, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_reciprocal(x)
    """
@overload
def fast_div(x: float, y: float) -> Scalar: ...
@overload
def fast_div(x: Tile | float, y: Tile | float) -> Tile:
    """x / y, approximated by the hardware.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.fast_div(x, x)
    """
def bitwise_not(x: _Value) -> _Value:
    """~x; logical negation for bool_.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.bitwise_not(x)
    """
@overload
def bitwise_and(x: float, y: float) -> Scalar: ...
@overload
def bitwise_and(x: Tile | float, y: Tile | float) -> Tile:
    """x & y.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.bitwise_and(x, x)
    """
@overload
def bitwise_or(x: float, y: float) -> Scalar: ...
@overload
def bitwise_or(x: Tile | float, y: Tile | float) -> Tile:
    """x | y.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.bitwise_or(x, x)
    """
@overload
def bitwise_xor(x: float, y: float) -> Scalar: ...
@overload
def bitwise_xor(x: Tile | float, y: Tile | float) -> Tile:
    """x ^ y.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.bitwise_xor(x, x)
    """
@overload
def left_shift(x: float, y: float) -> Scalar: ...
@overload
def left_shift(x: Tile | float, y: Tile | float) -> Tile:
    """x << y; 0 if y is not in 0 .. bits-1.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.left_shift(x, x)
    """
@overload
def right_shift(x: float, y: float) -> Scalar: ...
@overload
def right_shift(x: Tile | float, y: Tile | float) -> Tile:
    """x >> y; if y is not in 0 .. bits-1, -1 for negative x, else 0.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.right_shift(x, x)
    """
def popcount(x: _Value) -> _Value:
    """the number of bits of x that are 1.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.popcount(x)
    """
def clz(x: _Value) -> _Value:
    """the number of leading zeros of x; the width of x for 0.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.clz(x)
    """
def brev(x: _Value) -> _Value:
    """the bits of x in reverse order.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.brev(x)
    """
@overload
def equal(x: float, y: float) -> Scalar: ...
@overload
def equal(x: Tile | float, y: Tile | float) -> Tile:
    """x == y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.equal(x, x)
    """
@overload
def not_equal(x: float, y: float) -> Scalar: ...
@overload
def not_equal(x: Tile | float, y: Tile | float) -> Tile:
    """x != y; true for nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.not_equal(x, x)
    """
@overload
def less(x: float, y: float) -> Scalar: ...
@overload
def less(x: Tile | float, y: Tile | float) -> Tile:
    """x < y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.less(x, x)
    """
@overload
def less_equal(x: float, y: float) -> Scalar: ...
@overload
def less_equal(x: Tile | float, y: Tile | float) -> Tile:
    """x <= y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.less_equal(x, x)
    """
@overload
def greater(x: float, y: float) -> Scalar: ...
@overload
def greater(x: Tile | float, y: Tile | float) -> Tile:
    """x > y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.greater(x, x)
    """
@overload
def greater_equal(x: float, y: float) -> Scalar: ...
@overload
def greater_equal(x: Tile | float, y: Tile | float) -> Tile:
    """x >= y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.greater_equal(x, x)
    """
def isnan(x: _Value) -> _Value:
    """true for nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.isnan(x)
    """
def isinf(x: _Value) -> _Value:
    """true for infinities of either sign.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.isinf(x)
    """
def isfinite(x: _Value) -> _Value:
    """true unless x is nan or infinite.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.isfinite(x)
    """
def logical_not(x: _Value) -> _Value:
    """not x.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.logical_not(x)
    """
@overload
def logical_and(x: float, y: float) -> Scalar: ...
@overload
def logical_and(x: Tile | float, y: Tile | float) -> Tile:
    """x and y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.logical_and(x, x)
    """
@overload
def logical_or(x: float, y: float) -> Scalar: ...
@overload
def logical_or(x: Tile | float, y: Tile | float) -> Tile:
    """x or y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.logical_or(x, x)
    """
@overload
def where(condition: float, x: float, y: float) -> Scalar: ...
@overload
def where(condition: Tile | float, x: Tile | float, y: Tile | float) -> Tile:
    """x where the condition holds, else y.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.where(x > 0, x, x)
    """
@overload
def random_bits(seed: float, offset: float) -> Scalar: ...
@overload
def random_bits(seed: Tile | float, offset: Tile | float) -> Tile:
    """word offset % 4 of block offset // 4 of Philox 4x32-10 with the key seed: the same on all devices.

    Example:
        x = tj.cta.load(A[0:32, 0:8]).astype(tj.int32)
        y = tj.random_bits(x, x)
    """
@overload
def sum(x: Tile, axis: None = None, dtype: DType | DTypeLike | None = None, keepdims: Literal[False] = False, initial: float | None = None) -> Scalar: ...
@overload
def sum(x: Tile, axis: int | tuple[int, ...] | None = None, dtype: DType | DTypeLike | None = None, keepdims: bool = False, initial: float | None = None) -> Tile:
    """over axes of a tile: the sum; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.sum(x, axis=1)
    """
@overload
def max(x: Tile, axis: None = None, keepdims: Literal[False] = False, initial: float | None = None) -> Scalar: ...
@overload
def max(x: Tile, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, initial: float | None = None) -> Tile:
    """over axes of a tile: the maximum; nan if any is nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.max(x, axis=1)
    """
@overload
def min(x: Tile, axis: None = None, keepdims: Literal[False] = False, initial: float | None = None) -> Scalar: ...
@overload
def min(x: Tile, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, initial: float | None = None) -> Tile:
    """over axes of a tile: the minimum; nan if any is nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.min(x, axis=1)
    """
@overload
def prod(x: Tile, axis: None = None, dtype: DType | DTypeLike | None = None, keepdims: Literal[False] = False, initial: float | None = None) -> Scalar: ...
@overload
def prod(x: Tile, axis: int | tuple[int, ...] | None = None, dtype: DType | DTypeLike | None = None, keepdims: bool = False, initial: float | None = None) -> Tile:
    """over axes of a tile: the product; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.prod(x, axis=1)
    """
@overload
def any(x: Tile, axis: None = None, keepdims: Literal[False] = False) -> Scalar: ...
@overload
def any(x: Tile, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tile:
    """over axes of a tile: whether any element is nonzero.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.any(x, axis=1)
    """
@overload
def all(x: Tile, axis: None = None, keepdims: Literal[False] = False) -> Scalar: ...
@overload
def all(x: Tile, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tile:
    """over axes of a tile: whether all elements are nonzero.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.all(x, axis=1)
    """
@overload
def argmax(x: Tile, axis: None = None, keepdims: Literal[False] = False) -> Scalar: ...
@overload
def argmax(x: Tile, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tile:
    """over axes of a tile: the index of the first nan, else of the first maximum, as int32.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.argmax(x, axis=1)
    """
@overload
def argmin(x: Tile, axis: None = None, keepdims: Literal[False] = False) -> Scalar: ...
@overload
def argmin(x: Tile, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tile:
    """over axes of a tile: the index of the first nan, else of the first minimum, as int32.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.argmin(x, axis=1)
    """
def cumsum(x: Tile, axis: int, dtype: DType | DTypeLike | None = None, reverse: bool = False, exclusive: bool = False) -> Tile:
    """for each prefix of the elements along an axis of a tile: the sum; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.cumsum(x, axis=1)
    """
def cumprod(x: Tile, axis: int, dtype: DType | DTypeLike | None = None, reverse: bool = False, exclusive: bool = False) -> Tile:
    """for each prefix of the elements along an axis of a tile: the product; bool_ and integers under 32 bits accumulate in int32, the type of the result, float16 and bfloat16 in float32 with a single rounding, all others in the element type, where integers wrap.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.cumprod(x, axis=1)
    """
def cummax(x: Tile, axis: int, reverse: bool = False, exclusive: bool = False) -> Tile:
    """for each prefix of the elements along an axis of a tile: the maximum; nan if any is nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.cummax(x, axis=1)
    """
def cummin(x: Tile, axis: int, reverse: bool = False, exclusive: bool = False) -> Tile:
    """for each prefix of the elements along an axis of a tile: the minimum; nan if any is nan.

    Example:
        x = tj.cta.load(A[0:32, 0:8])
        y = tj.cummin(x, axis=1)
    """
