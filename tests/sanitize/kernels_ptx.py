"""A PTX file of small kernels, with and without line information, for tests of `python -m tilejit check`."""

from __future__ import annotations

from collections.abc import Callable

#: runs the command: options -> exit status, standard output, standard error
Run = Callable[..., tuple[int, str, str]]

ONE = ("--grid", "1", "--block", "256")
#: options of launches of `scale` on 1,000 elements
SCALE = ("k.ptx", "scale", "--grid", "4", "--block", "256")
SCALE_ARGS = ("--arg", "f32[1000]", "--arg", "i32:1000", "--arg", "f32:2")

#: path that its .file directive records, on a machine that is not this one
RECORDED = "/build/agent/src/kernels.cu"

#: the source that the .loc directives name, in part
SOURCE = """\
// kernels.cu
__shared__ int tile[256];
tile[threadIdx.x] = i;
y[i] = tile[255 - threadIdx.x];
x[i] = f * x[i];
"""

PTX = f"""\
.version 8.6
.target sm_90
.address_size 64
.file 1 "{RECORDED}"

.visible .entry reverse(.param .u64 y)
{{
.reg .b32 %r<9>; .reg .b64 %x<9>; .shared .align 4 .b8 tile[1024];
mov.u32 %r1, %tid.x; mov.u32 %r2, tile;
mad.lo.u32 %r3, %r1, 4, %r2;
.loc 1 3 1
st.shared.u32 [%r3], %r1;
.loc 1 4 8
sub.u32 %r4, 255, %r1; mad.lo.u32 %r5, %r4, 4, %r2; ld.shared.u32 %r6, [%r5];
ld.param.u64 %x1, [y]; mad.wide.u32 %x2, %r1, 4, %x1;
.loc 1 4 1
st.global.u32 [%x2], %r6;
ret;
}}

.visible .entry _ZN3app5scaleEPfif(
.param .u64 _ZN3app5scaleEPfif_param_0, .param .u32 _ZN3app5scaleEPfif_param_1, .param .f32 _ZN3app5scaleEPfif_param_2)
{{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %x<9>;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
ld.param.u32 %r5, [_ZN3app5scaleEPfif_param_1]; setp.ge.s32 %p1, %r4, %r5; @%p1 bra END;
ld.param.u64 %x1, [_ZN3app5scaleEPfif_param_0]; ld.param.f32 %f1, [_ZN3app5scaleEPfif_param_2];
.loc 1 5 1
mad.wide.s32 %x2, %r4, 4, %x1; ld.global.f32 %f2, [%x2]; mul.f32 %f3, %f1, %f2; st.global.f32 [%x2], %f3;
END: ret;
}}

.visible .entry no_lines(.param .u64 y)
{{
.reg .b32 %r<4>; .reg .b64 %x<4>;
mov.u32 %r1, %tid.x; ld.param.u64 %x1, [y];
st.global.u32 [%x1], %r1;
ret;
}}

.visible .entry surface(.param .u64 s)
{{
.reg .b32 %r<4>; .reg .b64 %x<4>;
ld.param.u64 %x1, [s]; mov.u32 %r1, 0;
suld.b.1d.b32.trap %r2, [%x1, {{%r1}}];
ret;
}}

.visible .entry structure(.param .align 8 .b8 s[16])
{{
.reg .b64 %x<4>; .reg .b32 %r<4>;
ld.param.u64 %x1, [s]; ld.param.u32 %r1, [s+8];
ret;
}}
"""


def line_of(text: str) -> int:
    """Return the line of PTX that holds `text`."""
    (number,) = (i for i, line in enumerate(PTX.splitlines(), 1) if text in line)
    return number
