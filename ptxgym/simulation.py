"""One simulated call of ``run``, in full: what ``ptxgym simulate`` shows."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from ptxgym.devices.simulator.runtime.session import SimulatorSession
from ptxgym.errors import CandidateError, MisuseError
from ptxgym.evaluation.comparison import compare
from ptxgym.evaluation.records import OutputComparison
from ptxgym.tasks import Shape, Task, format_shape
from ptxgym.toolchain import compile_source, read_source


@dataclass(frozen=True, slots=True)
class Simulation:
    """What the simulator saw."""

    shape: str
    launches: tuple[dict[str, Any], ...]
    """As :class:`ptxgym.devices.simulator.runtime.evidence.LaunchEvidence` has them, findings included."""
    notes: tuple[str, ...]
    """Calls that were refused or answered with an error, and limits that were reached."""
    printed: str
    """What kernels printed."""
    failure: str
    """How the call failed; empty when it ended well."""
    comparisons: tuple[OutputComparison, ...]
    """Every output against the reference; empty when the call failed."""

    @property
    def findings(self) -> tuple[dict[str, Any], ...]:
        """The findings of all launches, errors first."""
        found = [finding for launch in self.launches for finding in launch["findings"]]
        return tuple(sorted(found, key=lambda finding: finding["severity"] != "error"))

    @property
    def clean(self) -> bool:
        """Whether the call ended well, its outputs are right, and no finding is an error."""
        wrong = any(not comparison.passed for comparison in self.comparisons)
        return not self.failure and not wrong and not any(f["severity"] == "error" for f in self.findings)


def simulate(text: str, task: Task, shape: Shape) -> Simulation:
    """Compile a source and simulate one call of ``run`` on normal inputs.

    A source that does not compile is a call that failed; the compiler's own words are in ``failure``.

    Raises:
        InfrastructureError: This machine, or the simulator, lacks something.
    """
    import torch

    program = compile_source(read_source(text), task)
    if program.status != "compiled":
        failure = f"The source does not compile.\n{program.diagnostics}"
        return Simulation(format_shape(shape), launches=(), notes=(), printed="", failure=failure, comparisons=())
    inputs = task.operator.make_inputs(shape, "normal", torch.Generator().manual_seed(secrets.randbits(63)))
    failure, comparisons = "", []
    with SimulatorSession(program, task) as session:
        try:
            session.bind(shape)
            outputs, _ = session.run(inputs)
            reference = task.operator.reference(inputs)
            comparisons = [
                compare(outputs[name], exact, task.tolerance, name=name, shape="", distribution="normal")
                for name, exact in reference.items()
            ]
        except CandidateError as error:
            failure = error.message
        seen = session.evidence
    notes = [note for kind in ("refused", "hints", "limits", "problems") for note in seen.get(kind, [])]
    return Simulation(
        shape=format_shape(shape),
        launches=tuple(seen.get("launches", ())),
        notes=tuple(notes),
        printed=str(seen.get("output", "")),
        failure=failure,
        comparisons=tuple(comparisons),
    )


def parse_shape(text: str, task: Task) -> dict[str, int]:
    """Read ``M=512,N=768,K=640``; every dimension of the operator, each a positive number.

    Raises:
        MisuseError: It is not that.
    """
    wanted = [p.name for p in task.operator.parameters if p.role == "dimension"]
    try:
        shape = {name.strip(): int(value) for name, value in (part.split("=") for part in text.split(","))}
    except ValueError:
        shape = {}
    if sorted(shape) != sorted(wanted) or min(shape.values()) < 1:
        example = ",".join(f"{name}={extent}" for name, extent in task.probes[0].items())
        raise MisuseError(f"--shape {text!r} does not give {', '.join(wanted)}; write it like {example}.")
    return {name: shape[name] for name in wanted}
