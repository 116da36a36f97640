"""Every outcome of every stage, driven through a scripted device; compilation is real."""

import contextlib
import dataclasses
import functools
import math

import pytest
import torch

from ptxgym.devices import InstructionReport, KernelLaunch, MemoryReport
from ptxgym.errors import CandidateError, CrowdedError, InfrastructureError
from ptxgym.evaluation import STAGES, Evaluation, EvaluationOptions, Evaluator, MemoryEvidence, StageResult, feedback
from ptxgym.tasks import Task, get_task
from ptxgym.toolchain import KernelResources
from tests.adversarial.suite import FOLDER, source

from .doubles import KERNEL, ScriptedDevice
from .outcomes import evaluation_of

SOURCE = (
    'extern "C" __global__ void _Z6kernelv() {}\nextern "C" cudaError_t run(const __nv_bfloat16* A, '
    "const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) "
    "{ _Z6kernelv<<<1, 1, 0, stream>>>(); return cudaGetLastError(); }"
)
SMALL = {"M": 256, "N": 128, "K": 64}


@pytest.fixture
def task() -> Task:
    return dataclasses.replace(get_task("PTXBench-GEMM-H100"), workload=SMALL, probes=({"M": 128, "N": 256, "K": 64},))


@pytest.fixture
def device(task: Task) -> ScriptedDevice:
    return ScriptedDevice(task)


def judge(device: ScriptedDevice, source: object = SOURCE, on: str = "auto", **options: object) -> Evaluation:
    evaluator = Evaluator(device.task, EvaluationOptions(cache=False, device=on, **options))
    evaluator.__dict__["device"] = device
    evaluation = evaluator.evaluate(source)
    text = evaluation.model_dump_json()
    assert Evaluation.model_validate_json(text).model_dump_json() == text
    assert len(feedback(evaluation)) <= 6000
    return evaluation


def statuses(evaluation: Evaluation) -> str:
    return " ".join(stage.status for stage in evaluation.stages)


def test_an_honest_kernel_passes_every_stage(device):
    evaluation = judge(device)
    assert evaluation.status == "passed"
    assert statuses(evaluation) == "passed passed passed passed passed passed"
    assert evaluation.work_fraction == 1
    assert evaluation.speedup == pytest.approx(0.95, rel=0.01)
    timing = evaluation.stage("timing").evidence
    assert timing.speedup_low <= timing.speedup <= timing.speedup_high
    text = feedback(evaluation)
    assert text.startswith("PASSED")
    assert "speedup 0.9" in text
    assert "work fraction 1.000" in text


def test_warnings_of_a_passed_memory_stage_are_named_once_and_it_is_not_called_clean():
    at, other = "gemm.cu:9: warning: missing-proxy-fence: A", "gemm.cu:12: warning: missing-proxy-fence: A"
    reports = [
        MemoryReport(tool="simulator", errors=0, reports=texts, complete=True)
        for texts in ((f"{at} at block 1.", other), (f"{at} at block 7.",))
    ]
    evidence = MemoryEvidence(reports=tuple(reports), shapes=("a", "b"), refused=())
    assert evidence.verdict == "no memory error on 2 shapes, 2 warnings"
    stage = StageResult(stage="memory", status="passed", evidence=evidence)
    passed = evaluation_of()
    stages = tuple(stage if each.stage == "memory" else each for each in passed.stages)
    lines = feedback(passed.model_copy(update={"stages": stages})).splitlines()
    assert "memory-clean" not in lines[0]
    start = lines.index("memory: passed. No memory error on 2 shapes, 2 warnings:")
    assert lines[start + 1 : start + 3] == [f"  {at} at block 1.", f"  {other}"]
    assert sum("missing-proxy-fence" in line for line in lines) == 2
    clean = MemoryEvidence(reports=(reports[0].model_copy(update={"reports": ()}),), shapes=("a",), refused=())
    assert clean.verdict == "clean on 1 shape"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda C: C.zero_(), "mismatch"),
        (lambda C: C.fill_(float("nan")), "nonfinite"),
        (lambda C: C.fill_(float("inf")), "nonfinite"),
        (lambda C: C.view(torch.int16).fill_(-1), "unwritten"),
        (lambda C: C.view(-1)[17:18].add_(50), "mismatch"),
        (lambda C: C.mul_(1.015), "low_precision"),
    ],
)
def test_a_wrong_output_is_incorrect_and_nothing_later_runs(device, spoil, reason):
    honest = device.answer

    def answer(inputs):
        outputs = honest(inputs)
        spoil(outputs["C"])
        return outputs

    device.answer = answer
    device.task = dataclasses.replace(
        device.task, tolerance=dataclasses.replace(device.task.tolerance, absolute=1.0, relative=2e-2)
    )
    evaluation = judge(device)
    assert (evaluation.status, evaluation.stage("correctness").reason) == ("incorrect", reason)
    assert statuses(evaluation) == "passed passed passed failed skipped skipped"
    assert math.isnan(evaluation.speedup)
    assert "expected" in feedback(evaluation)
    assert device.calls == ["memory", "session"]


def test_feedback_calls_a_kernel_by_its_name_in_the_source():
    names = ("_Z4gemmPf", "_Z4castILi1EEvPf", "_Z4castILi2EEvPf")
    kernels = tuple(
        KernelResources(
            name=name, registers=32, stack_bytes=0, spill_store_bytes=0, spill_load_bytes=0, static_shared_bytes=0
        )
        for name in names
    )
    passed = evaluation_of()
    evidence = passed.stage("compile").evidence.model_copy(update={"kernels": kernels})
    stages = tuple(
        stage.model_copy(update={"evidence": evidence}) if stage.stage == "compile" else stage
        for stage in passed.stages
    )
    text = feedback(passed.model_copy(update={"stages": stages}))
    said = [line.split(":")[1].strip() for line in text.splitlines() if line.startswith("compile:")]
    assert said == ["gemm", *names[1:]], "a name that two share tells them not apart"


def test_feedback_names_the_worst_element(device):
    honest = device.answer

    def answer(inputs):
        outputs = honest(inputs)
        outputs["C"][3, 5] = 1000.0
        return outputs

    device.answer = answer
    text = feedback(judge(device))
    assert "C[3, 5]: got 1000, expected" in text


def test_changed_inputs_fail_even_when_the_output_is_right(device):
    device.mutates = True
    evaluation = judge(device)
    assert (evaluation.status, evaluation.stage("correctness").reason) == ("incorrect", "mutated_inputs")


def test_memory_errors_stop_the_evaluation_and_are_shown(device):
    device.memory_errors = 3
    evaluation = judge(device)
    assert evaluation.status == "memory_error"
    assert statuses(evaluation) == "passed passed failed skipped skipped skipped"
    assert "Invalid __global__ write" in feedback(evaluation)


def test_a_checker_that_did_not_finish_is_unknown_not_clean(device):
    device.memory_complete = False
    evaluation = judge(device)
    assert evaluation.stage("memory").status == "unknown"
    assert evaluation.correct, "the other stages go on"
    assert (evaluation.status, evaluation.valid) == ("unknown", False)


def test_a_refused_probe_is_no_failure(device):
    device.refuses = lambda shape: shape != SMALL
    evaluation = judge(device)
    assert evaluation.status == "passed"
    assert evaluation.stage("memory").evidence.shapes == ("M=256 N=128 K=64",), "memory was checked on the workload"
    assert "run refused M=128" in feedback(evaluation)


def test_memory_is_not_checked_on_the_workload_where_a_probe_was(device):
    assert judge(device).stage("memory").evidence.shapes == ("M=128 N=256 K=64",)


@pytest.mark.parametrize("stage", ["memory", "correctness"])
def test_who_refuses_all_that_a_device_can_run_has_failed(device, stage):
    device.runs_workload = False
    device.refuses = lambda shape: True
    evaluation = judge(device, stages=(stage,))
    assert (evaluation.status, evaluation.failed_stage.stage) == ("runtime_error", stage)
    assert "run refuses every shape that this device can run: M=128 N=256 K=64. Support" in feedback(evaluation)


@pytest.mark.parametrize("stage", ["memory", "correctness"])
def test_memory_that_others_have_is_no_refusal(device, stage):
    """What lacks memory beside others is run again alone, and passes."""
    device.lacks_memory = {stage}
    evaluation = judge(device)
    assert evaluation.status == "passed"
    assert evaluation.stage(stage).evidence.refused == ()
    assert device.calls.count("alone") == 1


def test_who_refuses_only_to_be_counted_has_failed(device):
    device.runs_workload = False

    def refuse(*_):
        raise CandidateError("refused", "run returned cudaErrorInvalidValue")

    device.count_instructions = refuse
    assert judge(device).status == "runtime_error"


@pytest.mark.parametrize(
    ("stages", "claims"),
    [
        (("compile",), "it compiles, and nothing more was asked"),
        (("memory",), "memory-clean"),
        (("correctness", "instructions", "timing"), "correct and done by the target instructions"),
        (STAGES, "correct, memory-clean, and done by the target instructions"),
    ],
)
def test_a_pass_claims_what_was_looked_at(device, stages, claims):
    assert feedback(judge(device, stages=stages)).splitlines()[0] == f"PASSED: {claims}."


def test_a_refused_workload_is_a_failure(device):
    device.refuses = lambda shape: shape == SMALL
    evaluation = judge(device)
    assert evaluation.status == "runtime_error"


def test_the_papers_rule_looks_at_the_workload_alone(device):
    device.refuses = lambda shape: shape != SMALL
    evaluation = judge(device, shapes="workload", on="none")
    assert evaluation.status == "passed"
    assert {c.shape for c in evaluation.stage("correctness").evidence.comparisons} == {"M=256 N=128 K=64"}


def test_no_target_instruction_is_a_failure_but_the_kernel_is_timed(device):
    device.threads = {"FFMA": 10**9, "HMMA.16816.F32.BF16": 10**6}
    evaluation = judge(device)
    assert evaluation.status == "target_instructions_missing"
    assert evaluation.stage("instructions").reason == "not_executed"
    assert evaluation.correct
    assert evaluation.work_fraction == 0
    assert evaluation.speedup == pytest.approx(0.95, rel=0.01)


def test_token_use_fails_the_work_rule_and_passes_the_papers(device):
    device.threads = {"HGMMA.64x256x16.F32.BF16": 128, "FFMA": 10**9}
    evaluation = judge(device)
    assert (evaluation.status, evaluation.stage("instructions").reason) == (
        "target_instructions_missing",
        "token_use",
    )
    assert judge(device, instruction_rule="paper").status == "passed"


def test_a_copy_instruction_alone_satisfies_only_the_papers_rule(device):
    device.threads = {"UTMALDG.2D": 1, "FFMA": 10**9}
    assert judge(device).stage("instructions").reason == "token_use"
    assert judge(device, instruction_rule="paper").status == "passed"


def test_fp8_tensor_instructions_do_no_bf16_work(device):
    device.threads = {"QGMMA.64x256x32.F32.E4M3.E4M3": 10**9}
    evaluation = judge(device)
    assert evaluation.stage("instructions").reason == "token_use"
    assert evaluation.work_fraction == 0


def test_a_candidate_that_launches_nothing_while_it_is_counted_has_executed_nothing(device):
    device.count_instructions = lambda program, task, shape, inputs: InstructionReport(
        tool="counter", dialect="sass", shape=dict(shape), kernels=()
    )
    assert judge(device).stage("instructions").reason == "not_executed"


def test_a_kernel_that_is_not_in_the_source_is_found(device):
    device.kernel = "nvjet_sm90_tst_256x128"
    assert judge(device).stage("instructions").reason == "foreign_kernel"


def test_work_beyond_what_is_needed_counts_as_one(device):
    device.threads["HGMMA.64x256x16.F32.BF16"] *= 3
    assert judge(device).work_fraction == 1


def test_work_on_blackwell_is_unknown_because_opcodes_do_not_tell():
    task = dataclasses.replace(get_task("PTXBench-GEMM-B200"), workload=SMALL, probes=(SMALL,))
    device = ScriptedDevice(task)
    device.threads = {"UTCHMMA": 100, "LDTM.x32": 100}
    evaluation = judge(device)
    assert evaluation.stage("instructions").status == "unknown"
    assert math.isnan(evaluation.work_fraction)
    assert judge(device, instruction_rule="paper").stage("instructions").status == "passed"
    device.threads = {"UTCATOMSWS.FIND_AND_SET.ALIGN": 1, "UTCBAR": 1, "UTMALDG.2D": 9}
    assert judge(device, instruction_rule="paper").stage("instructions").reason == "not_executed"


def test_a_time_below_the_roofline_is_implausible(device):
    device.info = device.info.model_copy(update={"memory_bandwidth": 1e3})
    evaluation = judge(device)
    assert (evaluation.status, evaluation.stage("timing").reason) == ("implausible", "below_roofline")
    assert math.isnan(evaluation.speedup), "it is no record"


def test_a_forged_clock_is_implausible(device):
    device.wall_seconds = 5e-3
    assert judge(device).stage("timing").reason == "clock_mismatch"


def test_a_speedup_counts_as_far_as_the_judges_clock_bears_it_out(device):
    device.wall_seconds = 1.1e-3
    evaluation = judge(device)
    timing = evaluation.stage("timing").evidence
    assert evaluation.status == "passed", "host code may be slow"
    assert timing.claimed_speedup == pytest.approx(0.95, rel=0.01)
    launch = 10e-6 + 700e-6 / 8
    assert evaluation.speedup == pytest.approx(1.08 * 0.76e-3 / (1.1e-3 - launch))
    assert timing.speedup_low <= timing.speedup_high == evaluation.speedup
    assert "clock" in feedback(evaluation)


def test_a_call_back_to_back_whose_output_is_not_there_is_found(device):
    device.wall_correct = False
    assert judge(device).stage("timing").reason == "wrong_when_timed"


@pytest.mark.parametrize(
    "launches",
    [
        (KernelLaunch(name="_Z5otherv", warps=528),),
        (KernelLaunch(name=KERNEL, warps=528), KernelLaunch(name="_Z5otherv", warps=4)),
        (KernelLaunch(name=KERNEL, warps=4),),
        (),
    ],
    ids=["another", "one-more", "a-smaller-one", "none"],
)
def test_timed_kernels_that_are_not_those_that_were_counted_are_found(device, launches):
    source = SOURCE.replace("extern", 'extern "C" __global__ void _Z5otherv() {}\nextern', 1)
    device.launches = launches
    evaluation = judge(device, source=source)
    assert (evaluation.status, evaluation.stage("timing").reason) == ("implausible", "other_kernels")
    assert device.calls.count("instructions") == 3, "counted again before it is accused"


def test_a_kernel_that_was_chosen_by_the_clock_is_seen_when_counted_again(device):
    source = SOURCE.replace("extern", 'extern "C" __global__ void _Z5otherv() {}\nextern', 1)
    device.launches = (KernelLaunch(name="_Z5otherv", warps=528),)
    count = device.count_instructions

    def counted(*arguments):
        device.kernel = "_Z5otherv" if "timing" in device.calls else KERNEL
        return count(*arguments)

    device.count_instructions = counted
    assert judge(device, source=source).status == "passed"


def test_a_larger_grid_and_a_timer_without_grids_are_nothing_to_accuse(device):
    for warps in (0, 1056):
        device.launches = (KernelLaunch(name=KERNEL, warps=warps),)
        assert judge(device).status == "passed"


def test_a_call_that_launches_nothing_is_no_record(device):
    device.candidate_seconds = 0.0
    assert judge(device).stage("timing").reason == "no_kernel"


def test_an_answer_kept_from_an_earlier_call_is_found_when_timed(device):
    honest, kept = device.answer, {}

    def answer(inputs):
        if "C" not in kept and len(device.calls) > 3:
            kept.update(honest(inputs))
        return kept or honest(inputs)

    device.answer = answer
    evaluation = judge(device)
    assert (evaluation.status, evaluation.stage("timing").reason) == ("implausible", "wrong_when_timed")


@pytest.mark.parametrize(
    ("reason", "status"),
    [("timeout", "timeout"), ("crash", "runtime_error"), ("exit", "runtime_error"), ("device_error", "runtime_error")],
)
def test_what_the_candidate_does_to_its_process_is_its_failure(device, reason, status):
    device.fault = CandidateError(reason, "It did it.")
    evaluation = judge(device)
    assert (evaluation.status, evaluation.valid) == (status, True)
    assert "It did it." in feedback(evaluation)


def find_dead(device: ScriptedDevice) -> None:
    """A probe that is not answered."""
    device.absence = "It does not answer."
    raise InfrastructureError(device.absence)


def test_a_device_that_fails_after_a_crash_makes_it_unknown_and_is_not_used_again(device, monkeypatch):
    device.fault = CandidateError("crash", "It crashed.")
    monkeypatch.setattr(device, "probe", functools.partial(find_dead, device))
    assert judge(device).status == "unknown"
    device.fault, device.calls = None, []
    later = judge(device)
    assert (later.status, device.calls) == ("unknown", [])
    assert "It does not answer." in feedback(later)


def test_a_failure_of_the_judge_has_the_device_looked_at(device, monkeypatch):
    device.fault = RuntimeError("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr(device, "probe", functools.partial(find_dead, device))
    first = judge(device)
    assert (first.status, device.calls) == ("unknown", ["memory"])
    assert "It does not answer." in feedback(first)


def test_what_is_right_without_its_target_instructions_is_a_decoy(device):
    device.threads |= {"FFMA": device.task.operator.flops(device.task.workload)}  # enough without them
    device.kernel = "_Z5plainPK13__nv_bfloat16S1_PS_ii"
    device.launches = (KernelLaunch(name=device.kernel, warps=528),)
    found = judge(device, source=source(FOLDER / "attacks" / "decoy_unused_product.cu"))
    assert (found.status, found.stage("instructions").reason) == ("target_instructions_missing", "decoy")


@pytest.mark.parametrize(("alone_too", "status"), [(False, "passed"), (True, "timeout")])
def test_a_timeout_beside_others_is_tried_again_alone_before_it_counts(device, monkeypatch, alone_too, status):
    device.fault = CrowdedError("timeout", "It took too long.")

    @contextlib.contextmanager
    def alone():
        device.calls.append("alone")
        device.fault = CandidateError("timeout", "It took too long.") if alone_too else None
        yield

    monkeypatch.setattr(device, "alone", alone)
    evaluation = judge(device)
    assert evaluation.status == status
    assert device.calls[:3] == ["memory", "alone", "memory"]
    assert device.calls.count("alone") == 1


@pytest.mark.parametrize("fault", [InfrastructureError("no tool"), RuntimeError("CUDA out of memory"), OSError("gone")])
def test_what_the_machine_does_is_unknown(device, fault):
    device.fault = fault
    evaluation = judge(device)
    assert (evaluation.status, evaluation.valid) == ("unknown", False)
    assert statuses(evaluation) == "passed passed unknown unknown unknown unknown"


def test_a_fault_of_the_judge_itself_is_unknown_and_does_not_escape(device):
    device.fault = KeyError("a bug")
    evaluation = judge(device)
    assert (evaluation.status, evaluation.valid) == ("unknown", False)
    assert "KeyError" in feedback(evaluation)


def test_stages_that_are_not_asked_for_are_skipped(device):
    evaluation = judge(device, stages=("correctness", "timing"))
    assert statuses(evaluation) == "passed passed skipped passed skipped passed"
    assert device.calls == ["session", "timing"]


def test_the_judge_computes_only_while_nothing_is_timed(device, monkeypatch):
    operator = device.task.operator
    for name in ("make_inputs", "reference"):
        original = getattr(operator, name)

        def guarded(*arguments, original=original, name=name):
            assert device.shared or device.calls[-1] == "timing", f"{name} outside a session and outside sharing"
            return original(*arguments)

        monkeypatch.setattr(operator, name, guarded)
    device.answer = lambda inputs: {"C": (inputs["A"].float() @ inputs["B"].float().T).bfloat16()}
    assert judge(device).status == "passed"


def test_the_kernel_name_of_the_doubles_is_in_the_source(device):
    assert KERNEL in SOURCE
