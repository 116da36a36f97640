"""Records on disk: whole lines, read back as they were, whatever a crash has left."""

import math
import os
import subprocess
import sys
import threading

import pytest

from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.runs import read_run, read_stops, read_turns
from ptxgym.runs.journal import FolderLock, Journal, write_by_rename
from ptxgym.runs.records import StopRecord, TurnRecord
from tests.runs.doubles import settings, stop_record, turn_record


def write(folder, *records):
    for name, kind in (("turns.jsonl", TurnRecord), ("stops.jsonl", StopRecord)):
        journal = Journal(folder / name, kind)
        for record in records:
            if isinstance(record, kind):
                journal.append(record)
        journal.close()


def test_a_turn_survives_the_disk(tmp_path):
    record = turn_record(reward=math.inf, source="a\n\0ü\u2028")
    write(tmp_path, record)
    (read,) = read_turns(tmp_path)
    assert read.model_dump_json() == record.model_dump_json()
    assert (read.reward, math.isnan(read.usage.cost), read.evaluation) == (math.inf, True, record.evaluation)


def test_why_a_trajectory_ended_stands_on_its_last_turn(tmp_path):
    write(tmp_path, turn_record(1), turn_record(2), turn_record(1, trajectory=1), stop_record(2, "context_full"))
    assert [turn.stop for turn in read_turns(tmp_path)] == ["", "context_full", ""]
    assert [turn.stop for turn in read_turns(tmp_path / "turns.jsonl")] == ["", "context_full", ""]


def test_an_error_that_a_resumed_run_took_back_is_gone(tmp_path):
    stops = stop_record(1, "error:RateLimitError"), stop_record(1, ""), stop_record(2, "policy_done")
    write(tmp_path, turn_record(1), turn_record(2), *stops)
    assert [turn.stop for turn in read_turns(tmp_path)] == ["", "policy_done"]


def test_an_end_before_the_first_turn_is_kept(tmp_path):
    write(tmp_path, stop_record(0, "error:APIConnectionError"))
    (stop,) = read_stops(tmp_path).values()
    assert (stop.turn, stop.final) == (0, False)


@pytest.mark.parametrize("kept", [1, 100, -1])
def test_a_line_that_a_crash_cut_off_is_passed_over_and_cut_off_before_the_next(tmp_path, kept):
    write(tmp_path, turn_record(1))
    whole = (tmp_path / "turns.jsonl").read_bytes()
    line = turn_record(2).model_dump_json().encode()
    (tmp_path / "turns.jsonl").write_bytes(whole + line[: kept if kept > 0 else len(line) + kept])
    assert [turn.turn for turn in read_turns(tmp_path)] == [1]
    write(tmp_path, turn_record(2))
    assert [turn.turn for turn in read_turns(tmp_path)] == [1, 2]


def test_a_last_line_that_lacks_only_its_newline_is_kept(tmp_path):
    (tmp_path / "turns.jsonl").write_text(turn_record(1).model_dump_json())
    assert [turn.turn for turn in read_turns(tmp_path)] == [1]
    write(tmp_path, turn_record(2))
    assert [turn.turn for turn in read_turns(tmp_path)] == [1, 2]


def test_a_long_half_line_is_found_from_the_files_end(tmp_path):
    write(tmp_path, turn_record(1))
    with (tmp_path / "turns.jsonl").open("ab") as file:
        file.write(b"x" * 300_000)
    write(tmp_path, turn_record(2))
    assert [turn.turn for turn in read_turns(tmp_path)] == [1, 2]
    (tmp_path / "turns.jsonl").write_bytes(b"x" * 300_000)
    write(tmp_path, turn_record(3))
    assert [turn.turn for turn in read_turns(tmp_path)] == [3]


@pytest.mark.parametrize("damage", [b"{}\n", b"not json\n", b"\xff\xfe\n", b'{"version": 2}\n'])
def test_another_line_that_is_no_record_is_named(tmp_path, damage):
    write(tmp_path, turn_record(1))
    path = tmp_path / "turns.jsonl"
    path.write_bytes(path.read_bytes() + damage + path.read_bytes())
    with pytest.raises(MisuseError, match=r"turns\.jsonl:2 is no TurnRecord"):
        list(read_turns(tmp_path))


def test_a_folder_without_a_run_is_a_sentence(tmp_path):
    with pytest.raises(MisuseError, match="no run"):
        list(read_turns(tmp_path))
    with pytest.raises(MisuseError, match="no run"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(MisuseError, match="no record of a run"):
        read_run(tmp_path)


def test_settings_are_written_whole_or_not_at_all(tmp_path):
    record = settings()
    write_by_rename(tmp_path / "run.json", record.model_dump_json())
    assert read_run(tmp_path) == record
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_threads_write_whole_lines(tmp_path):
    journal = Journal(tmp_path / "turns.jsonl", TurnRecord)
    records = [turn_record(n + 1, source="x" * 5000 * (n % 4)) for n in range(40)]
    threads = [threading.Thread(target=journal.append, args=(record,)) for record in records]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    assert {turn.turn for turn in read_turns(tmp_path)} == set(range(1, 41))


def test_a_closed_journal_writes_into_no_other_file(tmp_path):
    journal = Journal(tmp_path / "turns.jsonl", TurnRecord)
    journal.close()
    with (tmp_path / "other").open("w"), pytest.raises(InfrastructureError, match="cannot be written"):
        journal.append(turn_record())
    assert (tmp_path / "other").read_bytes() == b""


FULL_DISK = """
import resource, sys
from pathlib import Path
from ptxgym.errors import InfrastructureError
from ptxgym.runs.journal import Journal
from ptxgym.runs.records import TurnRecord
from tests.runs.doubles import turn_record
journal = Journal(Path(sys.argv[1]), TurnRecord)
journal.append(turn_record(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[1]).stat().st_size + 1000, resource.RLIM_INFINITY))
try:
    journal.append(turn_record(2, source="x" * 100_000))
except InfrastructureError as error:
    print(error)
"""


def test_a_write_that_the_disk_refuses_half_way_leaves_whole_lines(tmp_path):
    path = tmp_path / "turns.jsonl"
    result = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert "cannot be written: File too large" in result.stdout
    assert "--resume" in result.stdout
    assert path.read_bytes().endswith(b"\n")
    assert [turn.turn for turn in read_turns(tmp_path)] == [1]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(MisuseError, match=f"The folder {folder} cannot be made"):
            FolderLock(folder)


def test_a_folder_that_cannot_be_written_to_offers_to_resume_only_what_has_begun(tmp_path):
    (tmp_path / "lock").mkdir()  # even the superuser cannot open it as a file
    with pytest.raises(MisuseError, match="cannot be written to"):
        FolderLock(tmp_path)
    (tmp_path / "turns.jsonl").write_text("")
    with pytest.raises(InfrastructureError, match="Every turn recorded before is safe; mend it"):
        FolderLock(tmp_path)


def test_a_lock_keeps_a_second_run_out_and_dies_with_its_holder(tmp_path):
    hold = "import sys; from pathlib import Path; from ptxgym.runs.journal import FolderLock\n"
    hold += "with FolderLock(Path(sys.argv[1])):\n print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(MisuseError, match=f"process {holder.pid}"), FolderLock(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with FolderLock(tmp_path):
        pass
