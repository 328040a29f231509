"""The store on disk: what was put is given back whole, or nothing is."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj
from tilejit import files
from tilejit.errors import CacheWarning
from tilejit.runtime import store as stores
from tilejit.runtime.store import DiskStore

KEY, OTHER = "program:one", "program:two"

#: the id of a user without files, with the rights that all users have
UNPRIVILEGED = 65534

has_users = hasattr(os, "geteuid")
is_root = has_users and os.geteuid() == 0


def as_another_user(test):
    """Only where there are users: Windows trusts the profile's folder."""
    test = pytest.mark.parametrize("store", ["users"], indirect=True)(test)
    return pytest.mark.skipif(not has_users, reason="Windows trusts the profile's folder")(test)


class Windows:
    """The module `os` as far as the store sees on Windows what it doesn't elsewhere. opened: files that are read."""

    name = "nt"

    def __init__(self):
        self.opened = set()

    def install(self, monkeypatch):
        for module in (stores, files):
            monkeypatch.setattr(module, "os", self)

    def __getattr__(self, name):
        if name in ("geteuid", "getuid", "O_NOFOLLOW", "O_NONBLOCK", "mkfifo"):
            raise AttributeError(name)
        return getattr(os, name)

    def replace(self, source, target):
        if target in self.opened:
            raise PermissionError(errno.EACCES, "Access is denied")
        os.replace(source, target)


@pytest.fixture(params=["users", "Windows"] if has_users else ["users"])
def store(request, tmp_path, monkeypatch):
    if request.param == "Windows":
        Windows().install(monkeypatch)
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
def test_other_users_may_not_write_what_is_put(store):
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
        store._path(KEY).write_bytes(bytes(altered))
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


def give_away(path, monkeypatch):
    """Make another user the owner: as root by chown, else by a fake effective user id."""
    if is_root:
        os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
    else:
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)


@as_another_user
def test_an_entry_of_another_user_is_not_read_and_is_made_again(store, monkeypatch):
    store.put(KEY, b"payload")
    with monkeypatch.context() as patched:
        again = DiskStore(store.folder)
        assert again.get(KEY) is not None
        give_away(entry(store), patched)
        with pytest.warns(CacheWarning, match="belongs to another user: it is not used") as caught:
            assert again.get(KEY) is None
            assert again.get(KEY) is None and again.get(OTHER) is None
        assert len(caught) == 1 and len(list(store.entries())) == 1
    store.put(KEY, b"again")
    assert quiet(store) == b"again"


@as_another_user
def test_a_folder_of_another_user_is_not_used(store, monkeypatch):
    store.put(KEY, b"payload")
    again = DiskStore(store.folder)
    assert again.problem() is None
    give_away(store.folder, monkeypatch)
    with pytest.warns(CacheWarning, match="belongs to another user: nothing is kept on disk") as caught:
        assert again.get(KEY) is None
        again.put(OTHER, b"payload")
    assert len(caught) == 1 and len(list(store.entries())) == 1
    assert again.problem() == f"{store.folder} belongs to another user"


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
    assert again.problem() == f"{store.folder} can be written by others"


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
@pytest.mark.parametrize("store", ["users"], indirect=True)
def test_neither_a_link_nor_a_pipe_nor_a_folder_is_an_entry(store, tmp_path):
    store.put(KEY, b"payload")
    path = entry(store)
    os.replace(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert quiet(store) is None
    path.unlink()
    for make in (os.mkfifo, os.mkdir):
        make(path)
        with pytest.warns(CacheWarning, match="is not a file: it is not used"):
            assert DiskStore(store.folder).get(KEY) is None
        path.unlink() if make is os.mkfifo else path.rmdir()
    store.put(OTHER, b"payload")
    assert quiet(store, OTHER) == b"payload"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files")
def test_what_is_not_read_is_closed(store):
    store.put(KEY, b"payload")
    path = entry(store)
    path.unlink()
    path.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with warnings.catch_warnings(record=True):
        for _ in range(5):
            store.get(KEY)
    assert len(os.listdir("/proc/self/fd")) == before


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


def in_a_process(program, folder):
    """What a program prints, in a process of its own, to which a limit or a loss of rights stays."""
    head = """
        import os, resource, sys, warnings
        from pathlib import Path
        from tilejit.runtime.store import DiskStore
        store = DiskStore(Path(sys.argv[1]))
    """
    text = textwrap.dedent(head) + textwrap.dedent(program)
    command = [sys.executable, "-c", text, str(folder)]
    done = subprocess.run(command, cwd=Path(tj.__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.skipif(not has_users, reason="no limits for files")
def test_a_disk_that_fills_up_while_an_entry_is_written_leaves_nothing(tmp_path):
    """A limit for the size of files ends a write in its midst, as a full disk does."""
    kept = DiskStore(tmp_path / "kept")
    kept.put(OTHER, b"payload")
    program = """
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for _ in range(2):
            store.put("program:one", bytes(10_000))
            print(store.get("program:one"), store.get("program:two"))
    """
    shown, warned = in_a_process(program, kept.folder)
    assert shown == ["None b'payload'"] * 2
    assert warned.count("CacheWarning") == 1 and "can't be written (File too large)" in warned
    assert [path.name for path in kept.folder.iterdir()] == [entry(kept).name]


@pytest.mark.skipif(not has_users, reason="Windows has other rights")
def test_a_read_only_folder_is_read():
    with tempfile.TemporaryDirectory() as parent:
        kept = DiskStore(Path(parent, "kept"))
        kept.put(KEY, b"payload")
        os.utime(entry(kept), (0, 0))
        kept.folder.chmod(0o500)
        if is_root:
            # root may write anywhere, so it becomes the user that owns the folder
            for path in (parent, kept.folder, entry(kept)):
                os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        program = f"""
            if {is_root}:
                os.setgroups([])
                os.setgid({UNPRIVILEGED})
                os.setuid({UNPRIVILEGED})
            for _ in range(2):
                store.put("program:two", b"payload")
                print(store.get("program:one"), store.get("program:two"), store.problem(), store.is_writable)
        """
        shown, warned = in_a_process(program, kept.folder)
        kept.folder.chmod(0o700)
    assert shown == ["b'payload' None None False"] * 2
    assert warned.count("CacheWarning") == 1 and "can't be written (Permission denied)" in warned


def test_a_folder_that_cant_be_made_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    store = DiskStore(tmp_path / "file" / "kept")
    with pytest.warns(CacheWarning, match="can't be written"):
        store.put(KEY, b"payload")
    assert store.get(KEY) is None and not list(store.entries()) and store.clear() == 0 and store.verify() == []
    assert store.problem() == f"{store.folder} can't be read (Not a directory)"


def test_a_file_where_the_folder_should_be_is_a_warning(tmp_path):
    (tmp_path / "kept").write_text("")
    store = DiskStore(tmp_path / "kept")
    with pytest.warns(CacheWarning, match="kept is not a folder: nothing is kept on disk"):
        store.put(KEY, b"payload")
    assert store.problem() == f"{store.folder} is not a folder" and store.get(KEY) is None


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_a_folder_that_cant_be_made_because_it_is_not_found_is_a_warning():
    store = DiskStore(Path("/proc/x/y"))
    with pytest.warns(CacheWarning, match="/proc/x/y can't be written .No such file or directory.") as caught:
        store.put(KEY, b"payload")
        store.put(KEY, b"payload")
    assert len(caught) == 1 and store.get(KEY) is None


def test_a_folder_that_is_not_there_is_no_problem(store):
    assert store.problem() is None and store.is_writable and not store.folder.exists()
    store.put(KEY, b"payload")
    assert store.problem() is None and store.is_writable


def test_on_windows_an_entry_that_another_process_reads_stays(tmp_path, monkeypatch):
    windows = Windows()
    windows.install(monkeypatch)
    store = DiskStore(tmp_path / "kept")
    store.put(KEY, b"payload")
    windows.opened.add(entry(store))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(KEY, b"payload")
        store.put(OTHER, b"payload")
    assert quiet(store) == quiet(store, OTHER) == b"payload" and len(list(store.folder.iterdir())) == 2


def test_on_windows_a_folder_that_cant_be_written_is_a_warning(tmp_path, monkeypatch):
    windows = Windows()
    windows.install(monkeypatch)
    store = DiskStore(tmp_path / "kept")
    windows.opened.add(store._path(KEY))
    with pytest.warns(CacheWarning, match="can't be written .Access is denied."):
        store.put(KEY, b"payload")
    assert not list(store.folder.iterdir())


def test_a_key_may_hold_the_name_of_a_file_that_is_not_utf_8(store):
    key = f"source:{os.fsdecode(b'/home/' + bytes([255]))}"
    store.put(key, b"payload")
    assert quiet(store, key) == b"payload" and store.verify() == []


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


def test_whichever_entry_is_written_all_are_looked_at_seldom(store, monkeypatch):
    count, sweeps = iter(range(10**6)), []
    monkeypatch.setattr(os, "urandom", lambda size: (next(count) % 256).to_bytes(1, "big") * size)
    monkeypatch.setattr(DiskStore, "sweep", lambda self: sweeps.append(self))
    # keys of all digests
    for n in range(8):
        for _ in range(32):
            store.put(f"tuning:{n}", b"{}")
    assert len(sweeps) == 4


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


def test_abandoned_temporary_files_are_removed_in_time(store):
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
    names = ["README", "notes.txt", ".hidden", "a.b.c.tmp", "f" * 64, f"{'f' * 64}.json", f"{'f' * 64}.json.1-2.tmp"]
    for name in names:
        (store.folder / name).write_text("not an entry")
        os.utime(store.folder / name, (0, 0))
    DiskStore(store.folder, limit_bytes=100).sweep()
    assert store.verify() == [] and store.clear() == 1
    assert sorted(os.listdir(store.folder)) == sorted(names)


def test_verify_removes_what_is_damaged_and_says_so(store):
    for n in range(4):
        store.put(f"program:{n}", b"payload")
    one, two, *_ = sorted(e.path for e in store.entries())
    one.write_bytes(one.read_bytes()[:-1])
    two.write_bytes(b"nonsense")
    assert sorted(store.verify()) == [(one.name, "damaged", True), (two.name, "damaged", True)]
    assert len(list(store.entries())) == 2 and store.verify() == []


@as_another_user
def test_verify_and_clear_leave_what_belongs_to_another_user(store, monkeypatch):
    store.put(KEY, b"payload")
    foreign = entry(store)
    if is_root:
        store.put(OTHER, b"payload")
    give_away(foreign, monkeypatch)
    assert store.verify() == [(foreign.name, "belongs to another user", False)]
    assert store.clear() == is_root and [e.path for e in store.entries()] == [foreign]


def test_verify_says_what_it_cant_remove(store):
    store.put(KEY, b"payload")
    path = entry(store)
    path.unlink()
    path.mkdir()
    assert store.verify() == [(path.name, "is not a file", False)] and path.is_dir()


@as_another_user
def test_verify_removes_what_others_may_have_written(store):
    store.put(KEY, b"payload")
    path = entry(store)
    path.chmod(0o666)
    assert store.verify() == [(path.name, "can be written by others", True)] and not path.exists()


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


@tj.kernel(threads=32)
def counted(A: tj.Tensor):
    A[tj.lane_id()] = tj.lane_id()


class TestEnvironment:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch, tmp_path):
        for name in ("TILEJIT_CACHE", "TILEJIT_CACHE_DIR", "TILEJIT_CACHE_MAXSIZE"):
            monkeypatch.delenv(name, raising=False)
        self.set = monkeypatch.setenv
        self.patch, self.set_item = monkeypatch.setattr, monkeypatch.setitem
        for cached in (stores._store, stores._tell):
            cached.cache_clear()
        yield
        for cached in (stores._store, stores._tell):
            cached.cache_clear()

    def is_refused(self, words):
        """Whether nothing is kept, which one warning says, and a launch works."""
        with pytest.warns(CacheWarning) as caught:
            assert stores.current() is None and stores.current() is None
        (warned,) = caught
        hint = stores._SETTING_HINT if words.startswith("TILEJIT_CACHE") else stores._HINT
        assert str(warned.message) == f"{words}: nothing is kept on disk\nhelp: {hint}"
        assert stores.asked().unused == words
        a = np.zeros(32, np.int32)
        with tj.use_device("sim"):
            tj.Kernel(counted.__wrapped__, counted.options)[1](a)
        return a[31] == 31

    def test_it_is_where_the_system_keeps_caches(self, tmp_path):
        platformdirs = pytest.importorskip("platformdirs")
        self.patch(platformdirs, "user_cache_dir", lambda name, appauthor: str(tmp_path / name))
        assert stores.current().folder == tmp_path / "tilejit"
        assert stores.current().limit_bytes == stores.DEFAULT_LIMIT

    def test_it_can_be_elsewhere_and_smaller(self, tmp_path):
        self.set("TILEJIT_CACHE_DIR", str(tmp_path))
        self.set("TILEJIT_CACHE_MAXSIZE", "12345")
        assert stores.current().folder == tmp_path and stores.current().limit_bytes == 12345
        assert stores.current() is stores.current() and stores.asked().unused is None

    def test_it_can_be_below_the_users_home(self, tmp_path):
        self.set("HOME", str(tmp_path))
        self.set("TILEJIT_CACHE_DIR", "~/kept")
        assert stores.current().folder == tmp_path / "kept"

    def test_it_stays_where_it_is_when_the_program_changes_its_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        self.set("TILEJIT_CACHE_DIR", "kept")
        assert stores.current().folder == tmp_path / "kept"

    def test_it_can_be_off(self):
        self.set("TILEJIT_CACHE", "0")
        assert stores.current() is None and stores.asked().unused == "TILEJIT_CACHE=0"

    @pytest.mark.parametrize("value", ["", "1"])
    def test_it_is_on_where_nothing_or_1_asks_for_it(self, value, tmp_path):
        self.set("TILEJIT_CACHE", value)
        self.set("TILEJIT_CACHE_DIR", str(tmp_path))
        assert stores.current().folder == tmp_path

    @pytest.mark.parametrize("value", ["off", "false", "no", "on", "00"])
    def test_a_switch_that_is_neither_on_nor_off_is_a_warning_and_off(self, value):
        self.set("TILEJIT_CACHE", value)
        assert self.is_refused(f"TILEJIT_CACHE={value!r} is not one of 0, 1")

    def test_a_home_of_an_unknown_user_is_a_warning(self):
        self.set("TILEJIT_CACHE_DIR", "~nosuchuser/x")
        assert self.is_refused("~nosuchuser/x can't be resolved to a folder (Could not determine home directory.)")

    @pytest.mark.skipif(os.name == "nt", reason="Windows keeps the directory in which a program runs")
    def test_a_folder_in_a_directory_that_was_removed_is_a_warning(self, tmp_path, monkeypatch):
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        self.set("TILEJIT_CACHE_DIR", "kept")
        words = "kept can't be resolved to a folder ([Errno 2] No such file or directory)"
        assert self.is_refused(words)

    def test_a_size_that_is_no_number_is_a_warning(self, tmp_path):
        self.set("TILEJIT_CACHE_DIR", str(tmp_path))
        self.set("TILEJIT_CACHE_MAXSIZE", "1 GB")
        with pytest.warns(CacheWarning, match="'1 GB' is not a number of bytes: at most 536,870,912") as caught:
            assert stores.current().limit_bytes == stores.DEFAULT_LIMIT
            stores.current()
        assert len(caught) == 1 and stores.asked().unused is None and stores._SETTING_HINT in str(caught[0].message)

    def test_without_platformdirs_it_is_a_warning(self):
        self.set_item(sys.modules, "platformdirs", None)
        assert self.is_refused("platformdirs isn't installed")

    def test_warnings_name_the_line_of_the_users(self, tmp_path):
        (tmp_path / "file").write_text("")
        lines = []
        for folder in ("~nosuchuser/x", str(tmp_path / "file")):
            self.set("TILEJIT_CACHE_DIR", folder)
            with pytest.warns(CacheWarning) as caught, tj.use_device("sim"):
                again = tj.Kernel(counted.__wrapped__, counted.options)
                again[1](np.zeros(32, np.int32)); lines.append(sys._getframe().f_lineno)  # noqa: E702
            lines.append((caught[0].filename, caught[0].lineno))
        assert lines == [lines[0], (__file__, lines[0])] * 2
