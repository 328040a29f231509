"""`python -m tilejit explain` and `compile`: kernels of a file, compiled, as explanations, as text and as files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..dataclass import replace
from ..errors import LaunchError
from ..frontend import NO_DEFAULT
from ..jit import Kernel
from ..runtime.variant_builder import BuildRequest
from ..target import target as find_target
from . import schema
from .kernel_files import Remarked, compiled_for, kernels_of, one_kernel, printing_to_stderr

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..explanation import Explanation, VerdictRow


@printing_to_stderr()
def compile_ahead(
    place: str, specs: Sequence[str], outputs: Sequence[str], target: str | None, threads: int | None
) -> Iterator[str]:
    """Compile one kernel of a file, save it to each of `outputs`, and return the paths of the files written.

    place: `FILE` or `FILE::KERNEL`. specs: one `NAME=VALUE` per argument.
    """
    compiled, remarks = compiled_for(one_kernel(place), specs, target, threads)
    for remark in remarks[:1]:
        # not to standard output, which lists only the files
        print(f"{compiled.name}: {remark}", file=sys.stderr)
    return iter([str(path) for output in outputs for path in compiled.save(output)])


@printing_to_stderr()
def explain(
    place: str, target: str | None, text: str | None, run: bool, specs: Sequence[str], threads: int | None,
    shows_all: bool, style: str,
) -> Iterator[str]:
    """Return explanations of a file's kernels, or of one of them, or another text of each, such as its PTX.

    A kernel is compiled for the arguments in `specs`, else for its defaults if each parameter has one, such as
    a `tj.spec`, else for each signature that the file compiled it for, for example by launching it.

    place: `FILE` or `FILE::KERNEL`. text: an attribute of `Compiled`, or None for the explanation.
    run: run the file as a program, with the `__name__` "__main__", rather than as a module.
    specs: one `NAME=VALUE` per argument; these and `threads` require a single kernel.
    shows_all: also list the variants for operands in other memory spaces.
    style: "text" or "json".
    """
    if specs or threads is not None:
        variants = [compiled_for(one_kernel(place, run), specs, target, threads)]
    else:
        variants = _variants(place, target, run)
    data: schema.TextDocument | schema.ExplanationDocument
    if text is not None:
        data = {**schema.VERSIONS, "kernels": [_text(compiled, text) for compiled, _ in variants]}
        texts = [kernel["text"] for kernel in data["kernels"]]
    else:
        explanations = [_explanation(*remarked, shows_all) for remarked in variants]
        data = {**schema.VERSIONS, "kernels": [_explained(explanation) for explanation in explanations]}
        texts = list(map(str, explanations))
    return schema.formatted(style, data, ["\n\n".join(texts)])


def _variants(place: str, target: str | None, run: bool) -> list[Remarked]:
    """Return kernels compiled for their defaults or, if one is missing, for the signatures that the file compiled."""
    kernels = kernels_of(place, run)
    variants = [remarked for kernel in kernels for remarked in _variants_of(kernel, target)]
    if not variants:
        way = "launch the kernel in the file"
        if not run:
            way = "pass --run to run the file as a program and explain what it launches"
        raise LaunchError(
            f"the arguments of {' and '.join(k.name for k in kernels)} in {place.partition('::')[0]} are unknown",
            hint=f"pass --spec 'A=float32[32, 8]', declare `A: tj.Tensor = tj.spec((32, 8), tj.float32)`, or {way}",
        )
    return variants


def _variants_of(kernel: Kernel, target: str | None) -> list[Remarked]:
    if all(p.spec is not None or p.default is not NO_DEFAULT for p in kernel.open_parameters):
        return [compiled_for(kernel, (), target, None)]
    if target is None:
        return [(variant.compiled, ()) for variant in kernel.signatures]
    chosen = find_target(target)
    debug, built = kernel.options.debug, kernel.options.build_key
    requests = [BuildRequest(v.signature, chosen, v.threads, debug, built) for v in kernel.signatures]
    return [(kernel.variants.builder.make(request), ()) for request in requests]


def _explanation(compiled: Compiled, remarks: tuple[str, ...], shows_all: bool) -> Explanation:
    explanation = compiled.explain()
    return replace(explanation, remarks=(*explanation.remarks, *remarks), shows_all=shows_all)


def _text(compiled: Compiled, kind: str) -> schema.KernelText:
    return {
        "kernel": compiled.name, "target": str(compiled.target), "threads": compiled.threads,
        "shared_bytes": compiled.shared_bytes, "kind": kind, "text": getattr(compiled, kind),
    }


def _explained(explanation: Explanation) -> schema.ExplainedKernel:
    return {
        "kernel": explanation.kernel, "target": str(explanation.target),
        "operations": [_operation(row, explanation.shows_all) for row in explanation.rows],
        "elements": [
            {"line": each.line, "kind": each.kind, "place": each.place, "bits": each.bits, "times": each.times}
            for each in explanation.elements
        ],
        "tensor_maps": [
            {
                "of": spec.of, "dtype": str(spec.dtype), "axes": list(spec.axes), "box": list(spec.box),
                "swizzle": spec.swizzle,
            }
            for spec in explanation.maps
        ],
        "inserted": [
            {"line": each.line, "instruction": each.instruction, "reason": each.reason, "times": each.times}
            for each in explanation.inserted
        ],
        "notes": list(explanation.notes),
    }


def _operation(row: VerdictRow, shows_all: bool) -> schema.OperationData:
    return {
        "line": row.line, "source": row.source, "operation": row.operation, "variant": row.variant,
        "width": row.width, "rounds": row.rounds,
        "instructions": [{"instruction": name, "times": times} for name, times in row.instructions],
        "by_elements": row.cuts, "not_wider": row.limit, "uncoalesced": row.sectors,
        "declined": [
            {"variant": variant, "reasons": list(reasons)}
            for variant, reasons in row.declines
            if shows_all or variant not in row.elsewhere
        ],
    }
