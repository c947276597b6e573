"""The write-ahead log as files: what is written is read, and what is damaged is seen."""

import os
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqueue.wal import frames, segments
from mqueue.wal.folder import WalDir, is_live
from mqueue.wal.inherited import InheritedLog
from mqueue.wal.living import Broken, LivingLog
from mqueue.wal.segments import HEADER_BYTES, Header, SegmentError

WRITER, OTHER, DEPLOYMENT = UUID(int=1), UUID(int=2), UUID(int=3)
SEED = frames.seed_of(WRITER)
BODIES = st.lists(st.binary(max_size=60), min_size=1, max_size=8)


def written(bodies: list[bytes], first: int = 1) -> bytes:
    return b"".join(frames.write(SEED, number, body) for number, body in enumerate(bodies, first))


def read(data: bytes) -> list[tuple[int, bytes]]:
    return [(frame.number, frame.body) for frame in frames.scan(SEED, data).frames]


@given(BODIES)
def test_what_was_written_is_read(bodies: list[bytes]) -> None:
    scan = frames.scan(SEED, written(bodies))
    assert [(frame.number, frame.body) for frame in scan.frames] == list(enumerate(bodies, 1))
    assert scan.is_whole


@given(BODIES, st.data())
def test_whatever_is_cut_off_is_seen_and_what_is_whole_before_it_is_read(
    bodies: list[bytes], data: st.DataObject
) -> None:
    whole = written(bodies)
    cut = data.draw(st.integers(0, len(whole) - 1))
    scan = frames.scan(SEED, whole[:cut])
    ends = [len(written(bodies[: n + 1])) for n in range(len(bodies))]
    kept = sum(end <= cut for end in ends)
    assert [frame.body for frame in scan.frames] == bodies[:kept]
    assert bool(scan.tail) == (cut not in (0, *ends))


@given(BODIES, st.data())
def test_every_flipped_byte_is_seen_and_costs_one_record(bodies: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(written(bodies))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    scan = frames.scan(SEED, bytes(whole))
    hit = next(n for n in range(len(bodies)) if at < len(written(bodies[: n + 1])))
    assert [frame.number for frame in scan.frames] == [n + 1 for n in range(len(bodies)) if n != hit]
    assert not scan.is_whole


@given(st.binary(max_size=400), BODIES)
def test_no_bytes_pass_for_a_record(noise: bytes, bodies: list[bytes]) -> None:
    assert read(noise) == []
    assert read(noise + written(bodies)) == list(enumerate(bodies, 1))
    stranger = b"".join(frames.write(frames.seed_of(OTHER), 1, body) for body in bodies)
    assert read(stranger) == []


def test_a_payload_that_looks_like_records_is_no_record_and_takes_no_time() -> None:
    fake = frames.write(frames.seed_of(OTHER), 2, b"x" * 100_000)
    begins = fake[: frames.HEAD_BYTES] * 160_000
    data = bytearray(written([fake, begins[: frames.MOST], b"good"]))
    data[frames.HEAD_BYTES + 5] ^= 1
    data[frames.HEAD_BYTES + len(fake)] ^= 1
    assert read(bytes(data)) == [(3, b"good")]


HEADER = Header(WRITER, DEPLOYMENT, 0, 1)


@given(st.integers(0, HEADER_BYTES - 1), st.integers(1, 255))
def test_a_damaged_header_is_refused(at: int, flip: int) -> None:
    data = bytearray(HEADER.pack())
    data[at] ^= flip
    with pytest.raises(SegmentError):
        Header.unpack(bytes(data))


@given(st.binary(max_size=300))
def test_no_file_breaks_the_reader(data: bytes) -> None:
    with pytest.raises(SegmentError):
        Header.unpack(data)


class Logs:
    """One writer's log, living and inherited."""

    def __init__(self, path: Path, segment_bytes: int = 400) -> None:
        self.wal = WalDir(path)
        self.folder = self.wal.make_writer()
        self.path = self.folder.log_of(0)
        self.header = Header(self.folder.writer, DEPLOYMENT, 0, 0)
        self.seed = frames.seed_of(self.folder.writer)
        self.living = LivingLog(self.path, self.header, segment_bytes)

    def append(self, *numbers: int) -> None:
        self.living.append(b"".join(frames.write(self.seed, n, b"%d" % n * 20) for n in numbers), numbers[-1])

    def inherit(self) -> InheritedLog:
        self.living.close()
        return InheritedLog(self.wal, self.path, self.header)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "wal")


def numbers(log: LivingLog | InheritedLog, first: int = 1) -> list[int]:
    return [frame.number for frame in log.read(first)]


def test_a_log_goes_on_in_another_segment_and_is_read_across_them(logs: Logs) -> None:
    for n in range(1, 21):
        logs.append(n)
    assert len(logs.files()) > 2
    assert numbers(logs.living, 7) == list(range(7, 21))
    assert logs.living.size == sum((logs.path / name).stat().st_size for name in logs.files())
    assert numbers(logs.inherit()) == list(range(1, 21))
    assert logs.wal.quarantined() == []


def test_what_is_committed_is_removed_by_whole_segments(logs: Logs) -> None:
    for n in range(1, 21):
        logs.append(n)
    before = logs.files()
    logs.living.forget(10)
    assert set(logs.files()) < set(before)
    assert numbers(logs.living, 11) == list(range(11, 21))
    logs.living.forget(20)
    assert logs.files() == before[-1:]  # small, and still written to
    logs.append(21)
    assert numbers(logs.living, 21) == [21]


def test_a_torn_end_was_never_answered_and_is_passed_over(logs: Logs) -> None:
    logs.append(1, 2)
    inherited = logs.path / logs.files()[-1]
    os.truncate(inherited, inherited.stat().st_size - 3)
    log = logs.inherit()
    assert numbers(log) == [1]
    assert log.last == 1
    assert logs.wal.quarantined() == []


@pytest.mark.parametrize("cut", [1, frames.HEAD_BYTES - 1, frames.HEAD_BYTES, frames.HEAD_BYTES + 1])
def test_the_beginning_of_a_record_was_never_answered(logs: Logs, cut: int) -> None:
    logs.append(1)
    path = logs.path / segments.file_name(1)
    with open(path, "ab") as file:
        file.write(frames.write(logs.seed, 2, b"of many bytes")[:cut])
    assert numbers(logs.inherit()) == [1]
    assert logs.wal.quarantined() == []


def test_room_that_was_never_written_to_was_never_answered(logs: Logs) -> None:
    logs.append(1)
    with open(logs.path / segments.file_name(1), "ab") as file:
        file.write(bytes(500))
    assert numbers(logs.inherit()) == [1]
    assert logs.wal.quarantined() == []


@pytest.mark.parametrize("at", [-1, -12, 0, 3, 9, frames.HEAD_BYTES - 1])
def test_a_damaged_last_record_is_set_aside(logs: Logs, at: int) -> None:
    """It has its full length: it was there whole once, and may have been answered."""
    logs.append(1, 2)
    path = logs.path / segments.file_name(1)
    data = bytearray(path.read_bytes())
    last = frames.scan(logs.seed, bytes(data), HEADER_BYTES).frames[-1]
    data[last.start + at if at >= 0 else last.end + at] ^= 1
    path.write_bytes(data)
    assert numbers(logs.inherit()) == [1]
    assert "cannot be read" in quarantine(logs)["00000001.wal"]


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1])
def test_a_segment_that_was_never_begun_is_forgotten(logs: Logs, size: int) -> None:
    logs.append(1)
    (logs.path / segments.file_name(2)).write_bytes(HEADER.pack()[:size])
    os.truncate(logs.path / segments.file_name(1), (logs.path / segments.file_name(1)).stat().st_size)
    log = logs.inherit()
    assert numbers(log) == [1]
    assert logs.files() == [segments.file_name(1)]


def quarantine(logs: Logs) -> dict[str, str]:
    return {path.name[-12:]: path.with_suffix(".txt").read_text() for path in logs.wal.quarantined()}


def test_a_damaged_segment_is_set_aside_and_the_rest_of_it_used(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.append(1, 2, 3)
    path = logs.path / segments.file_name(1)
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + frames.HEAD_BYTES] ^= 1
    path.write_bytes(data)
    log = logs.inherit()
    assert numbers(log) == [2, 3]
    assert "cannot be read" in quarantine(logs)["00000001.wal"]
    assert "set aside" in caplog.text
    logs.folder.remove()
    (aside,) = logs.wal.quarantined()
    assert [frame.number for frame in segments.read(aside).frames] == [2, 3]


def test_a_segment_that_is_cut_off_where_another_follows_is_set_aside(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(1, 13):
        logs.append(n)
    first = logs.path / segments.file_name(1)
    kept = len(segments.read(first).frames) - 1
    end = segments.read(first).frames[-1].start
    os.truncate(first, end)  # between two records
    log = logs.inherit()
    assert numbers(log) == [*range(1, kept + 1), *range(kept + 2, 13)]
    assert list(quarantine(logs)) == ["00000001.wal"]
    assert f"misses records {kept + 1} to {kept + 1}" in caplog.text


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (Header(OTHER, DEPLOYMENT, 0, 1), "another writer"),
        (Header(WRITER, UUID(int=9), 0, 1), "another deployment"),
        (Header(WRITER, DEPLOYMENT, 1, 1), "shard 1"),
        (Header(WRITER, DEPLOYMENT, 0, 7), "another name"),
    ],
)
def test_a_foreign_segment_is_set_aside_and_not_used(logs: Logs, header: Header, reason: str) -> None:
    logs.path.mkdir()
    whose = header.writer if header.writer == OTHER else logs.folder.writer
    header = Header(whose, header.deployment, header.shard, header.number)
    record = frames.write(frames.seed_of(whose), 1, b"x")
    (logs.path / segments.file_name(1)).write_bytes(header.pack() + record)
    assert numbers(logs.inherit()) == []
    assert reason in quarantine(logs)["00000001.wal"]
    assert logs.files() == []


def test_a_full_disk_is_as_if_nothing_had_been_written(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.append(1)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(os, "fdatasync", failing("full"))
        logs.append(2)
    logs.append(2)
    assert numbers(logs.inherit()) == [1, 2]


def test_a_disk_of_which_nobody_knows_what_it_holds_breaks_the_log(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.append(1)
    with monkeypatch.context() as patch, pytest.raises(Broken):
        for name in ("fdatasync", "ftruncate"):
            patch.setattr(os, name, failing("gone"))
        logs.append(2)


def failing(words: str) -> object:
    def fail(*_: object) -> None:
        raise OSError(5, words)

    return fail


def test_a_writer_is_inherited_when_its_process_is_gone_and_by_one_alone(tmp_path: Path) -> None:
    wal = WalDir(tmp_path)
    folder = wal.make_writer()
    assert is_live(folder.path)
    assert list(wal.inherit()) == []
    folder.release()
    (heir,) = wal.inherit()
    assert heir.writer == folder.writer
    assert list(wal.inherit()) == []
    heir.remove()
    assert list(tmp_path.glob("writers/*")) == []


def test_who_tidies_up_what_is_just_removed_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last file of a folder and the folder itself, another process looks."""
    wal = WalDir(tmp_path)
    folder = wal.make_writer()
    rmdir = Path.rmdir

    def after_another(path: Path) -> None:
        rmdir(path)
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", after_another)
    folder.remove()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(folder.lock)


def test_a_writer_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = len(list(Path("/dev/fd").iterdir()))
    for name in ("write", "fsync"):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
            patch.setattr(os, name, failing("full"))
            WalDir(tmp_path).make_writer()
    assert list(tmp_path.glob("writers/*")) == []
    assert len(list(Path("/dev/fd").iterdir())) == files


def test_a_folder_without_a_lock_is_nobodys(tmp_path: Path) -> None:
    wal = WalDir(tmp_path)
    folder = wal.make_writer()
    (folder.path / "lock").unlink()
    folder.log_of(0).mkdir()
    assert list(wal.inherit()) == []
    assert folder.path.exists()
    folder.release()
