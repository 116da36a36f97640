import os
from contextlib import suppress
from pathlib import Path

import pytest

from ptxgym.toolchain import Cache, Record, content_key


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXGYM_CACHE", str(tmp_path))


def _add(cache: Cache, key: str, size: int = 10) -> None:
    with cache.adding(key) as folder:
        (folder / "data").write_bytes(b"x" * size)


def test_an_entry_exists_only_when_its_writer_has_finished():
    cache, key = Cache("things"), content_key(a=1)
    with suppress(RuntimeError), cache.adding(key) as folder:
        (folder / "data").touch()
        assert cache.find(key) is None
        raise RuntimeError("the writer crashed")
    assert cache.find(key) is None
    _add(cache, key)
    found = cache.find(key)
    assert found is not None
    assert (found / "data").exists()


def test_the_first_of_two_writers_stays():
    cache, key = Cache("things"), content_key(a=1)
    with cache.adding(key) as late:
        (late / "who").write_text("late")
        with Cache("things").adding(key) as early:
            (early / "who").write_text("early")
    assert (cache.find(key) / "who").read_text() == "early"


def test_pruning_removes_what_was_used_longest_ago():
    cache = Cache("things", limit=250)
    keys = [content_key(n=n) for n in range(4)]
    for age, key in enumerate(keys):
        _add(cache, key, 100)
        os.utime(cache.find(key), (1000 + age, 1000 + age))
    cache.find(keys[0])  # used just now
    assert cache.prune() == 200
    assert [cache.find(key) is not None for key in keys] == [True, False, False, True]


def test_keys_depend_on_every_part_and_on_no_order():
    assert content_key(a=1, b=2) == content_key(b=2, a=1)
    assert len({content_key(a=1, b=2), content_key(a=2, b=1), content_key(a=12)}) == 3


class _Thing(Record):
    number: int


def test_an_entry_of_another_version_is_removed_and_made_anew():
    cache, key = Cache("things"), content_key(a=1)
    for text, expected in (('{"number": 1, "old": 2}', None), ("{", None), ('{"number": 7}', 7)):
        with cache.adding(key) as folder:
            (folder / "thing.json").write_text(text)
        loaded = cache.load(key, "thing.json", _Thing)
        assert (loaded[0].number if loaded else None) == expected
    assert cache.load(content_key(a=2), "thing.json", _Thing) is None
