"""The compiler's mapping and the simulator's are derived apart: no file of either side names the other's."""

from __future__ import annotations

from tests.test_imports import FILES, imported

COMPILER = ("layout", "lower", "codegen", "frontend", "ir", "ops", "pipeline", "target")
SIMULATOR = [path for path in FILES if path.parts[0] == "simulator"]
OTHERS = [path for path in FILES if path.parts[0].removesuffix(".py") in COMPILER]


def test_the_simulator_imports_nothing_of_the_compiler() -> None:
    named = [(path, name) for path in SIMULATOR for _, name in imported(path) if name.split(".")[:1] == ["tilejit"]]
    # but for the first two, they know nothing of kernels
    shared = tuple(f"tilejit.{x}" for x in ("dataclass", "fast_unique", "progress", "html_tables", "gc_pause", "forks"))
    allowed = ("tilejit.errors", "tilejit.simulator", *shared)
    assert [at for at in named if not at[1].startswith(allowed)] == []


def test_the_compiler_imports_nothing_of_the_simulator() -> None:
    assert [(path, name) for path in OTHERS for _, name in imported(path) if "simulator" in name.split(".")] == []


def test_both_sides_have_their_tables() -> None:
    tables = {"tensor_layout.py", "tensor_map.py", "wgmma.py", "products.py"}
    assert tables <= {path.name for path in SIMULATOR}
    assert {"tiling.py", "copy_async_tcgen05_ldst.py"} <= {path.name for path in OTHERS}
