"""The store on disk: what was put is given back whole, or nothing is."""

import errno
import os
import stat
import sys
import threading
import time
import warnings

import pytest

from tilejit.runtime import store as stores
from tilejit.runtime.store import CacheWarning, DiskStore

KEY, OTHER = "program:one", "program:two"

as_another_user = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows trusts the profile's folder")


@pytest.fixture
def store(tmp_path):
    return DiskStore(tmp_path / "kept")


def entry(store):
    (found,) = store.entries()
    return found.path


def quiet(store, key=KEY):
    """What the store gives while every warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return store.get(key)


def test_what_was_put_is_given_back_by_every_store_of_the_folder(store):
    assert quiet(store) is None
    store.put(KEY, b"payload")
    store.put(OTHER, b"")
    assert quiet(store) == b"payload" == DiskStore(store.folder).get(KEY)
    assert quiet(store, OTHER) == b"" and store.get("program:three") is None
    store.put(KEY, b"another")
    assert store.get(KEY) == b"another"
    assert sorted((e.kind, e.size_bytes > 0) for e in store.entries()) == [("program", True)] * 2


@as_another_user
def test_nobody_else_may_write_what_is_put(store):
    before = os.umask(0)
    try:
        store.put(KEY, b"payload")
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(store).stat().st_mode) == 0o600


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_an_entry_that_is_cut_anywhere_is_removed_and_not_given(store, size):
    store.put(KEY, bytes(size))
    whole = entry(store).read_bytes()
    for end in {0, 1, 15, 16, 17, 40, 48, 60, len(whole) // 2, len(whole) - 1} - {len(whole)}:
        path = entry(store)
        path.write_bytes(whole[:end])
        assert quiet(store) is None, end
        assert not path.exists()
        store.put(KEY, bytes(size))
    assert quiet(store) == bytes(size)


def test_an_entry_of_which_any_byte_is_altered_is_not_given(store):
    store.put(KEY, b"payload of a kernel")
    whole = entry(store).read_bytes()
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1 << place % 8
        (store.folder / stores.DiskStore(store.folder)._path(KEY).name).write_bytes(bytes(altered))
        assert quiet(store) is None, place
    store.put(KEY, b"payload")
    entry(store).write_bytes(entry(store).read_bytes() + b"more")
    assert quiet(store) is None


def test_an_entry_in_anothers_place_is_not_given(store):
    store.put(KEY, b"payload of one")
    first = entry(store)
    kept = first.read_bytes()
    first.unlink()
    store.put(OTHER, b"payload of two")
    second = entry(store)
    os.replace(second, first)
    second.write_bytes(kept)
    assert quiet(store) is None and quiet(store, OTHER) is None
    assert not list(store.entries())


def test_an_entry_of_another_kind_of_the_same_digest_is_not_given(store):
    store.put(KEY, b"payload")
    os.replace(entry(store), entry(store).with_suffix(".cubin"))
    assert quiet(store) is None and len(store.verify()) == 1


@as_another_user
@pytest.mark.parametrize("what", ["folder", "entry"])
def test_what_belongs_to_another_user_is_not_read(store, what, monkeypatch):
    store.put(KEY, b"payload")
    again = DiskStore(store.folder)
    if what == "entry":
        assert again.get(KEY) is not None
    # everything here is a stranger's to another user
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(CacheWarning, match="belongs to another user") as caught:
        assert again.get(KEY) is None
        assert again.get(KEY) is None and again.get(OTHER) is None
    assert len(caught) == 1
    if what == "folder":
        again.put(OTHER, b"payload")
    assert len(list(store.entries())) == 1


@as_another_user
@pytest.mark.parametrize("bits", [stat.S_IWGRP, stat.S_IWOTH])
def test_a_folder_that_others_may_write_is_not_used(store, bits):
    store.put(KEY, b"payload")
    store.folder.chmod(0o700 | bits)
    again = DiskStore(store.folder)
    with pytest.warns(CacheWarning, match="can be written by others: nothing is kept on disk") as caught:
        assert again.get(KEY) is None
        again.put(OTHER, b"payload")
    assert len(caught) == 1 and len(list(store.entries())) == 1


@as_another_user
@pytest.mark.parametrize("bits", [stat.S_IWGRP, stat.S_IWOTH])
def test_an_entry_that_others_may_write_is_not_read_and_is_made_again(store, bits):
    store.put(KEY, b"payload")
    entry(store).chmod(0o600 | bits)
    with pytest.warns(CacheWarning, match="can be written by others: it is not used"):
        assert store.get(KEY) is None
    store.put(KEY, b"again")
    assert store.get(KEY) == b"again" and stat.S_IMODE(entry(store).stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_neither_a_link_nor_a_pipe_nor_a_folder_is_an_entry(store, tmp_path):
    store.put(KEY, b"payload")
    path = entry(store)
    os.replace(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.get(KEY) is None
    path.unlink()
    os.mkfifo(path)
    with pytest.warns(CacheWarning, match="something else"):
        assert store.get(KEY) is None
    path.unlink()
    path.mkdir()
    assert store.get(KEY) is None
    store.put(OTHER, b"payload")
    assert store.get(OTHER) == b"payload"


def failing(error):
    def fail(*args, **kwargs):
        raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("call", ["replace", "open"])
def test_where_nothing_can_be_written_one_warning_says_so(store, error, call, monkeypatch):
    store.put(KEY, b"payload")
    with monkeypatch.context() as patched:
        patched.setattr(os, call, failing(error))
        with pytest.warns(CacheWarning, match="can't be written .* not kept on disk") as caught:
            store.put(OTHER, b"payload")
            store.put(OTHER, b"payload")
    assert len(caught) == 1
    assert quiet(store) == b"payload" and quiet(store, OTHER) is None
    # nothing half written is left
    assert [path.name for path in store.folder.iterdir()] == [entry(store).name]


def test_a_disk_that_fills_up_while_an_entry_is_written_leaves_nothing(store, monkeypatch):
    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, content):
            self.file.write(content[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

    store.put(OTHER, b"payload")
    original = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda fd, mode: Full(original(fd, mode)) if mode == "wb" else original(fd, mode))
    with pytest.warns(CacheWarning, match="No space left"):
        store.put(KEY, b"payload")
    assert quiet(store) is None and len(list(store.folder.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_read(store):
    store.put(KEY, b"payload")
    store.folder.chmod(0o500)
    try:
        with pytest.warns(CacheWarning, match="Permission denied"):
            store.put(OTHER, b"payload")
        assert store.get(KEY) == b"payload"
    finally:
        store.folder.chmod(0o700)


def test_a_folder_that_cant_be_made_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    store = DiskStore(tmp_path / "file" / "kept")
    with pytest.warns(CacheWarning, match="can't be written"):
        store.put(KEY, b"payload")
    assert store.get(KEY) is None and not list(store.entries()) and store.clear() == 0 and store.verify() == []


def test_a_folder_that_is_removed_meanwhile_is_made_again(store):
    store.put(KEY, b"payload")
    entry(store).unlink()
    store.folder.rmdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(KEY, b"payload")
        store.put(KEY, b"payload")
        assert store.get(KEY) == b"payload"


def test_what_was_used_longest_ago_goes_first(store):
    small = DiskStore(store.folder, limit_bytes=10_000)
    now = time.time()
    for n in range(8):
        small.put(f"program:{n}", bytes(1000))
        os.utime(small._path(f"program:{n}"), (now - 5000 + n, now - 5000 + n))
    # reading is using
    assert small.get("program:0") is not None
    for n in range(8, 12):
        small.put(f"program:{n}", bytes(1000))
    there = {n for n in range(12) if small.get(f"program:{n}") is not None}
    assert {0, 8, 9, 10, 11} <= there and not {1, 2} & there
    assert sum(e.size_bytes for e in small.entries()) <= 10_000


def test_a_clock_that_was_wrong_does_no_harm(store):
    small = DiskStore(store.folder, limit_bytes=5_000)
    for n, offset in enumerate((10 * 365 * 86400, -10 * 365 * 86400, 0)):
        small.put(f"program:{n}", bytes(1000))
        os.utime(small._path(f"program:{n}"), (time.time() + offset,) * 2)
        assert small.get(f"program:{n}") == bytes(1000)
    os.utime(small._path("program:0"), (time.time() + 10 * 365 * 86400,) * 2)
    for n in range(3, 6):
        small.put(f"program:{n}", bytes(1000))
    # a time that has yet to come is no reason to stay for ever
    assert not small._path("program:0").exists()
    assert small.get("program:5") == bytes(1000)


def test_what_nobody_goes_on_writing_is_removed_in_time(store):
    store.put(KEY, b"payload")
    abandoned, busy = (entry(store).with_name(f"{entry(store).name}.{n}-abcd.tmp") for n in (1, 2))
    foreign = store.folder / "notes.txt"
    for path in (abandoned, busy, foreign):
        path.write_bytes(b"half")
    os.utime(abandoned, (0, 0))
    os.utime(foreign, (0, 0))
    store.sweep()
    assert not abandoned.exists() and busy.exists()
    assert store.clear() == 1
    # what isn't the store's stays
    assert [path.name for path in store.folder.iterdir()] == ["notes.txt"]


def test_files_of_others_stay_and_are_in_nobodys_way(store):
    store.put(KEY, b"payload")
    names = ["README", "notes.txt", ".hidden", "a.b.c.tmp", "f" * 64]
    for name in names:
        (store.folder / name).write_text("not an entry")
    store.sweep()
    assert store.verify() == [] and store.clear() == 1
    assert sorted(os.listdir(store.folder)) == sorted(names)


def test_verify_removes_what_is_damaged_and_says_so(store):
    for n in range(4):
        store.put(f"program:{n}", b"payload")
    one, two, *_ = sorted(e.path for e in store.entries())
    one.write_bytes(one.read_bytes()[:-1])
    two.write_bytes(b"nonsense")
    assert sorted(store.verify()) == [f"{one.name}: damaged", f"{two.name}: damaged"]
    assert len(list(store.entries())) == 2 and store.verify() == []


def test_an_interrupted_write_leaves_nothing(store, monkeypatch):
    store.put(OTHER, b"payload")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put(KEY, b"payload")
    assert len(list(store.folder.iterdir())) == 1


def test_threads_that_put_and_get_one_key_see_one_of_the_payloads(store):
    payloads = [bytes([n]) * 5000 for n in range(4)]
    store.put(KEY, payloads[0])
    seen, stop = set(), threading.Event()

    def write(payload):
        while not stop.is_set():
            store.put(KEY, payload)

    threads = [threading.Thread(target=write, args=(payload,)) for payload in payloads]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + 0.3
    while time.monotonic() < ends:
        seen.add(store.get(KEY))
    stop.set()
    for thread in threads:
        thread.join()
    assert seen <= set(payloads) and len(seen) > 1


class TestEnvironment:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch, tmp_path):
        for name in ("TILEJIT_CACHE", "TILEJIT_CACHE_DIR", "TILEJIT_CACHE_MAXSIZE"):
            monkeypatch.delenv(name, raising=False)
        self.set = monkeypatch.setenv
        self.patch, self.set_item = monkeypatch.setattr, monkeypatch.setitem
        stores._store.cache_clear()
        yield
        stores._store.cache_clear()

    def test_it_is_where_the_system_keeps_caches(self, tmp_path):
        platformdirs = pytest.importorskip("platformdirs")
        self.patch(platformdirs, "user_cache_dir", lambda name, appauthor: str(tmp_path / name))
        assert stores.current().folder == tmp_path / "tilejit"
        assert stores.current().limit_bytes == stores.DEFAULT_LIMIT

    def test_it_can_be_elsewhere_and_smaller(self, tmp_path):
        self.set("TILEJIT_CACHE_DIR", str(tmp_path))
        self.set("TILEJIT_CACHE_MAXSIZE", "12345")
        assert stores.current().folder == tmp_path and stores.current().limit_bytes == 12345
        assert stores.current() is stores.current()

    def test_it_stays_where_it_is_when_the_program_changes_its_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        self.set("TILEJIT_CACHE_DIR", "kept")
        assert stores.current().folder == tmp_path / "kept"

    def test_it_can_be_off(self):
        self.set("TILEJIT_CACHE", "0")
        assert stores.current() is None

    def test_a_size_that_is_no_number_is_a_warning(self, tmp_path):
        self.set("TILEJIT_CACHE_DIR", str(tmp_path))
        self.set("TILEJIT_CACHE_MAXSIZE", "1 GB")
        with pytest.warns(CacheWarning, match="'1 GB' is no number of bytes"):
            assert stores.current().limit_bytes == stores.DEFAULT_LIMIT

    def test_without_platformdirs_it_is_a_warning(self):
        self.set_item(sys.modules, "platformdirs", None)
        with pytest.warns(CacheWarning, match="platformdirs isn't installed"):
            assert stores.current() is None
