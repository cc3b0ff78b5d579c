"""Archives that are refused, and stores that do not answer."""

import io
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.sites import TYPE, environment
from tests.contract.waiting import wait
from workers.providers.base import InstanceStatus, LaunchRequest, StartFailure
from workers.providers.local import stop
from workers.providers.local.model_data import fetch, split_url, unpack
from workers.providers.local.provider import LocalProvider


def archive(*members: tarfile.TarInfo, content: bytes = b"") -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for member in members:
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def device(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.BLKTYPE
    return member


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    return made


def test_members_are_unpacked_where_they_belong(folder: Path) -> None:
    unpack(archive(tarfile.TarInfo("deep/weights"), content=b"w"), folder)
    assert (folder / "deep" / "weights").read_bytes() == b"w"


@pytest.mark.parametrize(
    "members",
    [
        [tarfile.TarInfo("../evil")],
        [tarfile.TarInfo("a/../../evil")],
        [link("out", ".."), tarfile.TarInfo("out/evil")],
        [link("out", "/etc")],
        [device("disk")],
    ],
)
def test_what_would_land_outside_is_refused(folder: Path, members: list[tarfile.TarInfo]) -> None:
    with pytest.raises(tarfile.FilterError):
        unpack(archive(*members), folder)
    assert not list(folder.parent.rglob("evil"))


def test_an_absolute_name_lands_inside(folder: Path) -> None:
    unpack(archive(tarfile.TarInfo("/weights"), content=b"w"), folder)
    assert (folder / "weights").read_bytes() == b"w"


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_does(folder: Path) -> None:
    big = archive(tarfile.TarInfo("a"), tarfile.TarInfo("b"), content=b"x" * 600)
    with pytest.raises(ValueError, match="1000 bytes"):
        unpack(big, folder, unpacked_limit_bytes=1000)
    assert not (folder / "b").exists()


def test_an_archive_of_too_many_members_is_refused(folder: Path) -> None:
    many = archive(*(tarfile.TarInfo(str(number)) for number in range(4)))
    with pytest.raises(ValueError, match="3 members"):
        unpack(many, folder, members_limit=3)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket/key.tar.gz", ("bucket", "key.tar.gz")),
        ("s3://bucket/a/b?c#d", ("bucket", "a/b?c#d")),
    ],
)
def test_a_key_is_taken_as_it_is(url: str, expected: tuple[str, str]) -> None:
    assert split_url(url) == expected


@pytest.mark.parametrize("url", ["http://169.254.169.254/x", "file:///etc/passwd", "s3://", "s3://b", "s3://b/", ""])
def test_nothing_but_an_object_in_the_store_is_fetched(folder: Path, url: str) -> None:
    with pytest.raises(ValueError, match="s3://bucket/key"):
        fetch(url, folder)


@pytest.fixture
def silent_store() -> Iterator[str]:
    """Accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("s3://bucket/key", "the download did not end within 1 s"),
        ("http://169.254.169.254/x", "http://169.254.169.254/x: model data is fetched from s3://bucket/key only"),
    ],
)
def test_data_that_cannot_be_had_fail_the_start_in_one_line(
    tmp_path: Path, silent_store: str, url: str, detail: str
) -> None:
    keys = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    provider = LocalProvider(tmp_path, {**environment(), **keys, "HEADRACE_S3_ENDPOINT_URL": silent_store}, 0.3)
    asked = LaunchRequest(
        *("t", "us", TYPE, "local", "headrace/reference"), model_data_url=url, model_data_download_timeout_seconds=1
    )
    provider.launch(asked)
    seen = wait(lambda: (i := provider.find("t")) and i.status is InstanceStatus.EXITED and i)
    assert (seen.failure, seen.detail) == (StartFailure.MODEL_DATA, detail)
    assert stop.main(tmp_path, patience_seconds=30.0) == 0
