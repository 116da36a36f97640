"""What is read from Nsight Compute and Compute Sanitizer."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgym.devices.cuda.nsight import parse_nsight_log
from ptxgym.devices.cuda.sanitizer import ERROR_EXIT, parse_sanitizer_log
from ptxgym.errors import InfrastructureError

NSIGHT = """\
==WARNING== Note: Running with unmodified GPU clocks.
==PROF== Connected to process 740 (/usr/bin/python3.12)
==PROF== Disconnected from process 740
"Kernel Name","_Z1kPf",
"Address","Source","inst_executed","thread_inst_executed_true"
"0x10","      LDC R1, c[0x0][0x28]","64","2048"
"0x20","@!P0  BRA 0x990","64","0"
"0x30","      HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, UP0, gsb0","8","256"
"0x40","@P1   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, UP0, gsb0","8","128"
"Kernel Name","_Z1jPf",
"Address","Source","inst_executed","thread_inst_executed_true"
"0x10","      EXIT","1","32"
"""

SANITIZER = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 2 bytes
=========     at oob(__nv_bfloat16 *, unsigned long)+0xb0 in kernel.cu:3
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f1c88830000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f1c88810000 of size 131,072 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: run [0x198a] in kernel.so
=========@
========= Invalid __global__ write of size 2 bytes
=========     at oob(__nv_bfloat16 *, unsigned long)+0xb0 in kernel.cu:3
=========@
========= ERROR SUMMARY: 2 errors
""".replace("@", " ")  # the tool ends these lines with a blank


def test_predicate_true_threads_are_summed_by_opcode_and_kernel():
    first, second = parse_nsight_log(NSIGHT)
    assert first.name == "_Z1kPf"
    assert first.threads == {"LDC": 2048, "BRA": 0, "HGMMA.64x256x16.F32.BF16": 384}
    assert (second.name, second.threads) == ("_Z1jPf", {"EXIT": 32})


@pytest.mark.parametrize("value", ["nan", "", "n/a", "1.5"])
def test_a_missing_count_is_never_read_as_not_executed(value: str):
    with pytest.raises(InfrastructureError):
        parse_nsight_log(NSIGHT.replace('"256"', f'"{value}"'))


def test_refused_counters_say_how_to_allow_them():
    with pytest.raises(InfrastructureError, match="NVreg_RestrictProfilingToAdminUsers=0"):
        parse_nsight_log("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")


def test_a_kernels_name_refuses_no_counters():
    first, _ = parse_nsight_log(NSIGHT.replace("_Z1kPf", "ERR_NVGPUCTRPERM"))
    assert first.threads["HGMMA.64x256x16.F32.BF16"] == 384
    profiled = '==PROF== Profiling "ERR_NVGPUCTRPERM" - 0\n'
    assert len(parse_nsight_log(profiled + NSIGHT)) == 2


@pytest.mark.parametrize("text", ["", "==ERROR== Failed to profile", "something else"])
def test_a_tool_that_did_not_work_is_no_evidence(text: str):
    with pytest.raises(InfrastructureError):
        parse_nsight_log(text)


def test_a_process_that_launched_nothing_has_no_kernels():
    text = "==PROF== Connected to process 1 (x)\n==WARNING== No kernels were profiled.\n"
    assert parse_nsight_log(text) == ()


def test_errors_are_counted_and_shown_without_the_hosts_stack():
    report = parse_sanitizer_log(SANITIZER, ERROR_EXIT)
    assert (report.errors, report.complete) == (2, True)
    assert report.reports[0].startswith("Invalid __global__ write of size 2 bytes")
    assert "kernel.cu:3" in report.reports[0]
    assert "Host Frame" not in "".join(report.reports)


def test_a_clean_run_needs_the_summary():
    clean = parse_sanitizer_log("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", 0)
    assert (clean.errors, clean.complete) == (0, True)
    cut = parse_sanitizer_log("========= COMPUTE-SANITIZER\n", 0)
    assert (cut.errors, cut.complete) == (0, False)


def test_the_exit_code_alone_is_enough_for_an_error():
    assert parse_sanitizer_log("", ERROR_EXIT).errors == 1


def test_an_invalid_access_without_a_summary_is_an_error():
    assert parse_sanitizer_log(SANITIZER.partition("========= ERROR")[0], 0).errors == 2


def test_an_unsupported_device_is_unknown():
    with pytest.raises(InfrastructureError):
        parse_sanitizer_log("========= COMPUTE-SANITIZER\n========= Error: Device not supported\n", 1)


@pytest.mark.parametrize(
    "name", ["Device not supported", "Internal Sanitizer Error", "========= ERROR SUMMARY: 0 errors"]
)
def test_a_sources_file_name_changes_no_verdict(name):
    for code in (ERROR_EXIT, 0):
        assert parse_sanitizer_log(SANITIZER.replace("kernel.cu", name), code).errors == 2
    broken = SANITIZER.partition("========= ERROR")[0].replace("kernel.cu", "a\n========= ERROR SUMMARY: 0 errors\n")
    assert parse_sanitizer_log(broken, ERROR_EXIT).errors == 2


@given(st.text(), st.integers(0, 255))
def test_any_log_is_read_without_another_exception(text: str, code: int):
    for parse in (parse_nsight_log, lambda log: parse_sanitizer_log(log, code)):
        with contextlib.suppress(InfrastructureError):
            parse(text)


@given(st.lists(st.sampled_from(NSIGHT.splitlines())).map("\n".join))
def test_shuffled_lines_never_count_more_than_they_say(text: str):
    with contextlib.suppress(InfrastructureError):
        total = sum(sum(kernel.threads.values()) for kernel in parse_nsight_log(text))
        assert total <= 2464 * max(1, text.count("\n") + 1)
