"""Compiles the kernels again: `python regenerate.py [nvcc] [triton] [numba]`, in an environment with requirements.txt.

No GPU is needed. The sources are compiled as files of `FOLDER`, which is what the line information names,
and so are CUDA's headers, by a link.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = Path("/tmp/tilejit-foreign")

# Line information with `inlined_at` where helpers are inlined; the first file shows nvcc's default output.
NVCC_FLAGS = {
    "elementwise": (), "cooperation": ("-lineinfo",), "tiles": ("-lineinfo",), "libraries": ("-std=c++17", "-lineinfo"),
    "calls": ("-lineinfo",), "pointers": (), "tables": ("-lineinfo",), "slow_paths": (), "wmma": ("-lineinfo",),
    "packed": (), "pipelines": ("-std=c++17", "-lineinfo"), "groups": ("-std=c++17", "-lineinfo"),
    "clusters": ("-std=c++17", "-lineinfo"), "double_mma": ("-lineinfo",), "bulk": ("-std=c++17", "-lineinfo"),
    "tensormaps": ("-std=c++17", "-lineinfo", "-arch=sm_90a"),
    "arrays": (), "sorting": ("-lineinfo",), "science": ("-lineinfo",), "searching": (),
}


def write(family: str, name: str, ptx: str) -> None:
    (HERE / family / f"{name}.ptx.xz").write_bytes(lzma.compress(ptx.encode(), preset=9))


def load(family: str) -> Any:
    path = FOLDER / family / "kernels.py"
    spec = importlib.util.spec_from_file_location(f"{family}_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def nvcc() -> None:
    toolkit = FOLDER / "cuda"
    toolkit.symlink_to(Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13")
    include = [f"-I{toolkit / 'include'}", f"-I{toolkit / 'include' / 'cccl'}"]
    for name, flags in NVCC_FLAGS.items():
        out = FOLDER / f"{name}.ptx"
        source = FOLDER / "nvcc" / f"{name}.cu"
        arch = () if any(flag.startswith("-arch") for flag in flags) else ("-arch=sm_90",)
        subprocess.run([toolkit / "bin" / "nvcc", "-ptx", *arch, *include, *flags, source, "-o", out], check=True)
        write("nvcc", name, out.read_text())


def triton() -> None:
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    metadata = {}
    for build in load("triton").BUILDS:
        names = build.kernel.arg_names
        types = dict(zip(names, build.types.split(), strict=False))
        signature = {x: types.get(x, "constexpr") for x in names}
        # as for arrays that an allocator made
        aligned = {(i,): [["tt.divisibility", 16]] for i, x in enumerate(names) if signature[x][0] == "*"}
        source = ASTSource(build.kernel, signature=signature, constexprs=build.constants, attrs=aligned)
        compiled = compile(
            source, target=GPUTarget("cuda", build.arch, 32), options={"num_warps": build.warps}
        )
        name = build.name or build.kernel.__name__
        write("triton", name, compiled.asm["ptx"])
        facts = compiled.metadata
        metadata[name] = {"entry": facts.name, "threads": 32 * facts.num_warps, "shared_bytes": facts.shared}
        assert facts.global_scratch_size == 0 and facts.profile_scratch_size == 0
    (HERE / "triton" / "metadata.json").write_text(json.dumps(metadata, indent=1) + "\n")


def numba() -> None:
    from numba import cuda

    for build in load("numba").BUILDS:
        ptx, _ = cuda.compile_ptx(build.kernel, build.types, cc=(9, 0))
        write("numba", build.name, ptx)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for family in ("nvcc", "triton", "numba"):
        shutil.copytree(HERE / family, FOLDER / family)
    for family in sys.argv[1:] or ["nvcc", "triton", "numba"]:
        globals()[family]()


if __name__ == "__main__":
    main()
