"""The judge's side of a candidate's process, with real libraries in real processes. No GPU: ``start`` is not asked."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from ptxgym.devices import process as process_module
from ptxgym.devices.process import CandidateProcess
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.toolchain import Program, scratch

_COMPILER = shutil.which("gcc") or shutil.which("cc")


@pytest.fixture
def program(tmp_path: Path):
    """Build a Program whose library is plain C."""

    def build(code: str) -> Program:
        (tmp_path / "kernel.c").write_text(code)
        subprocess.run([_COMPILER, "-shared", "-fPIC", "-o", tmp_path / "kernel.so", tmp_path / "kernel.c"], check=True)
        return Program(
            source_sha256="",
            key="",
            target="sm_90a",
            status="compiled",
            diagnostics="",
            compiler="cc",
            seconds=0,
            folder=tmp_path,
        )

    return build


def test_a_library_is_loaded_into_a_confined_process_and_nothing_is_left(program, monkeypatch: pytest.MonkeyPatch):
    own = tempfile.mkdtemp()  # short: the path of a socket has 107 bytes
    monkeypatch.setattr(tempfile, "tempdir", own)
    with CandidateProcess(program("int run(void) { return 0; }")) as process:
        process.load()
        assert {"limits", "files", "syscalls"} >= set(process.confinement)
        assert "limits" in process.confinement
    assert process.close() is not None
    assert os.listdir(own) == []
    os.rmdir(own)


def test_a_constructor_that_exits_with_success_is_no_success(program):
    code = "#include <stdlib.h>\n__attribute__((constructor)) void leave(void) { exit(0); } int run(void) { return 0; }"
    with CandidateProcess(program(code)) as process, pytest.raises(CandidateError) as caught:
        process.load()
    assert caught.value.reason == "exit"
    assert "code 0" in caught.value.message


def test_a_crash_is_named_by_its_signal(program):
    code = "__attribute__((constructor)) void fall(void) { *(volatile int*)0 = 1; } int run(void) { return 0; }"
    with CandidateProcess(program(code)) as process, pytest.raises(CandidateError, match="SIGSEGV") as caught:
        process.load()
    assert caught.value.reason == "crash"


def test_a_constructor_that_hangs_is_ended_in_time(program):
    code = "__attribute__((constructor)) void spin(void) { for (;;) {} } int run(void) { return 0; }"
    start = time.monotonic()
    with CandidateProcess(program(code)) as process, pytest.raises(CandidateError) as caught:
        process.load(timeout=0.5)
    assert caught.value.reason == "timeout"
    assert time.monotonic() - start < 5
    assert process._process.poll() is not None


@pytest.mark.parametrize("notices", [True, False], ids=["the-process-notices", "the-next-judge-ends-it"])
def test_nothing_of_a_candidate_outlives_a_judge_that_is_killed(program, monkeypatch, notices):
    own = tempfile.mkdtemp()
    hang = "__attribute__((constructor)) void hang(void) { for (;;) pause(); }"
    candidate = program(f"#include <unistd.h>\n{hang} int run(void) {{ return 0; }}")
    judge = f"""if True:
        import tempfile
        from ptxgym.devices.process import CandidateProcess
        from ptxgym.toolchain import Program
        tempfile.tempdir = {own!r}
        process = CandidateProcess(Program.model_validate_json({candidate.model_dump_json()!r}))
        print(process._process.pid, flush=True)
        process.load(timeout=60)
    """
    with subprocess.Popen([sys.executable, "-c", judge], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        watched = os.pidfd_open(pid)
        if not notices:
            os.kill(pid, signal.SIGSTOP)
        process.kill()
    if not notices:
        monkeypatch.setattr(tempfile, "tempdir", own)
        monkeypatch.setattr(scratch, "_SETTLED_SECONDS", 0)
        assert scratch.sweep() == 1
        assert os.listdir(own) == []
    assert select.select([watched], [], [], 20)[0], "the candidate's process goes on"
    os.close(watched)
    shutil.rmtree(own)


def test_folders_that_are_held_are_not_swept(monkeypatch):
    own = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", own)
    monkeypatch.setattr(scratch, "_SETTLED_SECONDS", 0)
    with scratch.scratch_folder() as folder:
        assert scratch.sweep() == 0
        assert folder.exists()
    assert os.listdir(own) == []
    os.rmdir(own)


def test_a_tool_that_is_killed_is_not_waited_for(program):
    hang = "__attribute__((constructor)) void hang(void) { for (;;) pause(); }"
    tool = ["/bin/sh", "-c", '"$@" & wait', "tool"]
    start = time.monotonic()
    with CandidateProcess(
        program(f"#include <unistd.h>\n{hang} int run(void) {{ return 0; }}"), wrapper=tool
    ) as process:
        threading.Timer(1, os.kill, (process.pid, signal.SIGKILL)).start()
        with pytest.raises(CandidateError, match="SIGKILL"):
            process.load()
    assert time.monotonic() - start < 10  # it is given 20 seconds


@pytest.mark.parametrize(("number", "name"), [(6, "SIGABRT"), (34, "SIGRTMIN"), (37, "signal 37")])
def test_an_end_by_any_signal_is_the_candidates(program, number, name):
    end = f"__attribute__((constructor)) void end(void) {{ raise({number}); }}"
    with (
        CandidateProcess(program(f"#include <signal.h>\n{end} int run(void) {{ return 0; }}")) as process,
        pytest.raises(CandidateError, match=f"ended by {name}"),
    ):
        process.load()


@pytest.mark.parametrize("confined", [True, False])
def test_who_leaves_the_group_of_its_tool_is_ended_too(program, monkeypatch, confined):
    monkeypatch.setattr(process_module, "_REPORT_SECONDS", 1)
    if not confined:  # as on a machine without seccomp
        monkeypatch.setattr(CandidateProcess, "load", _load_unconfined)
    code = """
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
void* hold(void* nothing) {  // from here on nothing of Python's runs in there, which could notice the judge's end
  usleep(300000);
  ((int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure"))();
  for (;;) pause();
}
__attribute__((constructor)) void leave(void) {
  pthread_t thread;
  setsid();
  pthread_create(&thread, 0, hold, 0);
}
int run(void) { return 0; }"""
    with CandidateProcess(program(code), wrapper=["/bin/sh", "-c", '"$@"; exit $?', "tool"]) as process:
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.load()
        time.sleep(1)
        assert (os.getpgid(int(child)) == process.pid) == confined
        watched = os.pidfd_open(int(child))
    assert select.select([watched], [], [], 10)[0], "it goes on"
    os.close(watched)


def _load_unconfined(process: CandidateProcess) -> None:
    process._loaded = True
    process.ask("load", library=str(process._library))


def test_a_process_that_cannot_be_made_leaves_nothing(program, tmp_path, monkeypatch):
    own = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", own)
    gone = program("int run(void) { return 0; }").model_copy(update={"folder": tmp_path / "pruned"})
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            CandidateProcess(gone)
    assert os.listdir("/proc/self/fd") == before
    assert os.listdir(own) == []
    os.rmdir(own)


def test_a_process_that_does_not_listen_holds_nobody_up(program):
    start = time.monotonic()
    with CandidateProcess(program("int run(void) { return 0; }")) as process:
        process.load()
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(CandidateError) as caught:
            process.ask("run", timeout=0.5, noise="x" * (1 << 22))  # more than a socket takes
    assert caught.value.reason == "timeout"
    assert time.monotonic() - start < 10


def test_a_missing_symbol_is_the_candidates(program):
    with CandidateProcess(program("int other(void) { return 0; }")) as process, pytest.raises(CandidateError) as caught:
        process.load()
    assert caught.value.reason == "load_error"


def test_noise_on_the_channel_is_the_candidates(program):
    code = """
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) void forge(void) {
  for (int fd = 3; fd < 64; ++fd) (void)!write(fd, "PASSED\\n", 7);
}
int run(void) { return 0; }"""
    with CandidateProcess(program(code)) as process, pytest.raises(CandidateError) as caught:
        process.load()
    assert caught.value.reason == "protocol"


def test_an_endless_reply_is_cut_off(program):
    code = """
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) void flood(void) {
  char noise[65536];
  memset(noise, 'x', sizeof noise);
  for (;;) for (int fd = 3; fd < 16; ++fd) (void)!write(fd, noise, sizeof noise);
}
int run(void) { return 0; }"""
    with CandidateProcess(program(code)) as process, pytest.raises(CandidateError):
        process.load(timeout=5)


def test_children_network_and_other_files_are_out_of_reach(program, tmp_path):
    (tmp_path / "secret").write_text("42")
    code = f"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <dlfcn.h>
__attribute__((constructor)) void probe(void) {{
  int reached = 0;
  if (fork() >= 0) reached |= 1;
  if (socket(AF_INET, SOCK_STREAM, 0) >= 0) reached |= 2;
  if (open("{tmp_path / "secret"}", O_RDONLY) >= 0) reached |= 4;
  if (open("/proc/1/environ", O_RDONLY) >= 0) reached |= 8;
  if (dlopen("libssl.so.3", RTLD_NOW) || dlopen("libz.so.1", RTLD_NOW)) reached |= 16;
  if (reached) _exit(64 + reached);
}}
int run(void) {{ return 0; }}"""
    with CandidateProcess(program(code)) as process:
        process.load()
        if set(process.confinement) < {"files", "syscalls"}:
            pytest.skip(f"this kernel confines by {process.confinement} only")


def test_the_environment_is_scrubbed(program, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PTXGYM_SECRET", "42")
    code = """
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) void look(void) { if (getenv("PTXGYM_SECRET")) _exit(65); }
int run(void) { return 0; }"""
    with CandidateProcess(program(code)) as process:
        process.load()


def test_what_fails_before_the_candidate_is_loaded_is_not_its_fault(program):
    with (
        CandidateProcess(program("int run(void) { return 0; }")) as process,
        pytest.raises(InfrastructureError, match=r"libcuda\.so\.does-not-exist"),
    ):
        process.ask("start", driver="libcuda.so.does-not-exist", runtime="", timer=None)


def test_a_wrapper_that_cannot_start_is_not_the_candidates_fault(program):
    with pytest.raises(InfrastructureError, match="did not start"):
        CandidateProcess(program("int run(void) { return 0; }"), wrapper=["/bin/false"])
