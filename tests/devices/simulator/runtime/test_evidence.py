"""Evidence stays whole, however much a candidate does."""

from ptxgym.devices.simulator.findings import Finding, FindingLog, Severity, SourceLine
from ptxgym.devices.simulator.machine import LaunchReport
from ptxgym.devices.simulator.runtime.evidence import Evidence, LaunchEvidence


def _launch(name: str) -> LaunchEvidence:
    return LaunchEvidence(name, (1, 1, 1), (32, 1, 1), (1, 1, 1), 0)


def _report(flops: int, findings: tuple[Finding, ...] = (), error: str | None = None) -> LaunchReport:
    return LaunchReport(
        executed={"wgmma": flops},
        tensor_flops={},
        bytes={},
        findings=findings,
        error=error,
        printf="",  # type: ignore[arg-type]
    )


def test_every_launch_is_counted_with_its_own_kernel() -> None:
    evidence = Evidence()
    for number in range(3000):
        evidence.launch(_launch(f"k{number % 3}")).add(_report(1))
    evidence.launch(_launch("last")).add(_report(7))
    total: dict[str, int] = {}
    for launch in evidence.launches:
        total[launch.name] = total.get(launch.name, 0) + launch.executed["wgmma"]
    assert total == {"k0": 1000, "k1": 1000, "k2": 1000, "last": 7}
    assert len(evidence.launches) < 600


def test_warnings_do_not_push_out_what_ended_a_launch() -> None:
    log = FindingLog(capacity=200)
    for line in range(1000):
        log.warn("slow", SourceLine("k.cu", line), "x")
    log.conclude(Finding("unknown-instruction", Severity.WARNING, SourceLine("k.cu", 7), "unknown"))
    assert log.as_tuple()[-1].code == "unknown-instruction"
    launch = _launch("k")
    launch.add(_report(1, log.as_tuple(), "unknown_instruction"))
    assert launch.findings[-1]["code"] == "unknown-instruction"
    assert len(launch.findings) < 60
