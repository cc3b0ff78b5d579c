"""What only the `local` provider has: real processes, with their deaths, their environments and their data."""

import io
import os
import sys
import tarfile
from pathlib import Path

import pytest

from tests import aws
from tests.contract.waiting import child_of, wait
from workers.providers.base import InstanceStatus, LaunchRequest, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.local.processes import Directory, root
from workers.providers.local.provider import LocalProvider

STUBBORN = [
    sys.executable,
    "-c",
    "import signal, threading; signal.signal(15, lambda *_: 0); print('deaf', flush=True); threading.Event().wait(99)",
]


@pytest.fixture
def provider(tmp_path: Path):  # type: ignore[no-untyped-def]
    """A provider whose instances end with the test."""
    made = LocalProvider(tmp_path, os.environ, grace_seconds=3.0)
    made._runtimes["stubborn"] = STUBBORN
    made._runtimes["missing"] = ["/no/such/program"]
    yield made
    for instance in made.list_owned("me"):
        made.terminate(instance.provider_id)
    wait(lambda: not made.list_owned("me"))


def launch(provider: LocalProvider, image: str = "headrace/reference", **options: object) -> ProviderInstance:
    """Launch one instance under the token `t`."""
    return provider.launch(LaunchRequest("t", "me", "ml.m5.large", "local", image, **options))  # type: ignore[arg-type]


def exited(provider: LocalProvider) -> ProviderInstance:
    """The instance once it has exited."""
    found: ProviderInstance = wait(lambda: (i := provider.find("t")) and i.status is InstanceStatus.EXITED and i)
    return found


def container_of(provider: LocalProvider, tmp_path: Path) -> int:
    """The container's process id."""
    instance = provider.find("t")
    assert instance is not None
    wait(lambda: (i := provider.find("t")) and i.status is not InstanceStatus.PENDING)
    state = Directory(root(tmp_path) / instance.provider_id).state
    assert state is not None
    return child_of(state["pid"])


def is_running(pid: int) -> bool:
    """Whether the process lives (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_container_that_leaves_at_once_tells_its_code_and_last_line(provider: LocalProvider) -> None:
    launch(provider, environment={"CHAOS_START": "exit:3"})
    instance = exited(provider)
    assert instance.failure is StartFailure.CONTAINER_EXITED
    assert instance.detail == "exited with code 3: reference container: told to leave with code 3"


def test_a_command_that_cannot_be_started_says_so(provider: LocalProvider) -> None:
    launch(provider, "missing")
    assert "/no/such/program cannot be started" in exited(provider).detail


def test_an_image_without_a_runtime_is_a_misconfiguration_that_names_the_setting(provider: LocalProvider) -> None:
    with pytest.raises(ProviderError, match="HEADRACE_RUNTIMES") as refused:
        launch(provider, "unknown:1")
    assert refused.value.kind is ErrorKind.MISCONFIGURED


def test_when_the_shim_is_killed_the_container_dies_and_the_instance_has_exited(
    provider: LocalProvider, tmp_path: Path
) -> None:
    instance = launch(provider)
    child = container_of(provider, tmp_path)
    state = Directory(root(tmp_path) / instance.provider_id).state
    assert state is not None
    os.kill(state["pid"], 9)
    assert "was killed" in exited(provider).detail
    wait(lambda: not is_running(child))


def test_a_container_deaf_to_sigterm_is_killed_after_the_grace(provider: LocalProvider, tmp_path: Path) -> None:
    instance = launch(provider, "stubborn")
    child = container_of(provider, tmp_path)
    log = root(tmp_path) / instance.provider_id / "log"
    wait(lambda: log.exists() and "deaf" in log.read_text())
    provider.terminate(instance.provider_id)
    stopping = provider.find("t")
    assert stopping is not None
    assert stopping.status is InstanceStatus.STOPPING
    wait(lambda: provider.find("t") is None)
    assert not is_running(child)


def test_the_container_sees_its_own_environment_and_none_of_headraces(provider: LocalProvider, tmp_path: Path) -> None:
    launch(provider, environment={"GREETING": "hello"})
    environment = Path(f"/proc/{container_of(provider, tmp_path)}/environ").read_text().split("\0")
    assert "GREETING=hello" in environment
    assert any(each.startswith("SAGEMAKER_BIND_TO_PORT=") for each in environment)
    secrets = [os.environ[name] for name in ("HEADRACE_SECRET_KEY", "HEADRACE_SECRET_ACCESS_KEY", "HEADRACE_DATABASE_URL")]
    assert not [each for each in environment if each.startswith(("AWS_", "DJANGO")) or any(s in each for s in secrets)]


def test_a_launch_that_crashed_after_its_spec_is_repeated_by_its_token(provider: LocalProvider, tmp_path: Path) -> None:
    instance = launch(provider)
    provider.terminate(instance.provider_id)
    wait(lambda: provider.find("t") is None)
    half = root(tmp_path) / instance.provider_id
    half.mkdir(exist_ok=True)
    (half / "spec.json").write_text("{")
    assert provider.find("t") is None
    assert launch(provider).provider_id == instance.provider_id


def _archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def store() -> str:
    """A bucket with a good archive and an evil one."""
    client = aws.client("s3", endpoint_url=os.environ["HEADRACE_S3_ENDPOINT_URL"])
    client.create_bucket(Bucket="models")
    client.put_object(Bucket="models", Key="good.tar.gz", Body=_archive({"weights": b"w"}))
    client.put_object(Bucket="models", Key="evil.tar.gz", Body=_archive({"../evil": b"w"}))
    return "s3://models"


def test_model_data_lie_in_the_model_directory_before_the_container_starts(
    provider: LocalProvider, store: str, tmp_path: Path
) -> None:
    instance = launch(provider, model_data_url=f"{store}/good.tar.gz")
    assert instance.status is InstanceStatus.PENDING
    container_of(provider, tmp_path)
    assert (root(tmp_path) / instance.provider_id / "model" / "weights").read_bytes() == b"w"


@pytest.mark.parametrize("name", ["evil.tar.gz", "missing.tar.gz"])
def test_model_data_that_cannot_be_had_are_told_apart_from_a_crash(
    provider: LocalProvider, store: str, name: str, tmp_path: Path
) -> None:
    launch(provider, model_data_url=f"{store}/{name}")
    instance = exited(provider)
    assert instance.failure is StartFailure.MODEL_DATA
    assert name in instance.detail
    assert not list(tmp_path.rglob("evil"))
