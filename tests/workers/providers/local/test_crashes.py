"""Processes that are killed at the wrong moment: launchers, shims, and what containers leave behind."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.contract.sites import ROOT, TYPE, environment, request_for
from tests.contract.waiting import wait
from workers.providers.base import InstanceStatus, LaunchRequest, ProviderInstance, StartFailure
from workers.providers.local import processes, shim, stop
from workers.providers.local.processes import Directory
from workers.providers.local.provider import LocalProvider

RUNTIMES = {
    "daemon": ["/bin/sh", "-c", "setsid sleep 300 & sleep 300 & exec sleep 300"],
    "flood": ["/bin/sh", "-c", "exec yes a line that never ends"],
    "deaf": ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"],
}


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[LocalProvider]:
    """A provider with unpleasant runtimes; nothing outlives the test."""
    env = {**environment(), "HEADRACE_RUNTIMES": json.dumps(RUNTIMES)}
    yield LocalProvider(tmp_path, env, grace_seconds=0.3)
    assert stop.main(tmp_path, patience_seconds=30.0) == 0


def launch(provider: LocalProvider, image: str, token: str = "t") -> ProviderInstance:
    return provider.launch(request_for(provider, token, image=image))


def directory_of(tmp_path: Path, instance: ProviderInstance) -> Directory:
    found = processes.directory(tmp_path, instance.provider_id)
    assert found is not None
    return found


def marked(directory: Directory) -> list[str]:
    """The commands of the living processes of an instance."""
    mark = f"{shim.MARK}={directory.path}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def wait_for_end(provider: LocalProvider, instance: ProviderInstance) -> None:
    wait(lambda: not provider.describe([instance.provider_id]))


def kill_shim(directory: Directory) -> None:
    state = wait(lambda: (directory.state or {}).get("status") == "running" and directory.state)
    os.kill(state["pid"], signal.SIGKILL)
    wait(lambda: not directory.is_alive)


def test_what_a_container_started_dies_after_its_shim_was_killed(provider: LocalProvider, tmp_path: Path) -> None:
    instance = launch(provider, "daemon")
    directory = directory_of(tmp_path, instance)
    wait(lambda: len(marked(directory)) == 3)
    kill_shim(directory)
    seen = provider.describe([instance.provider_id])[instance.provider_id]
    assert (seen.status, seen.failure) == (InstanceStatus.EXITED, StartFailure.CONTAINER_EXITED)
    assert seen.detail == processes.ABANDONED
    wait(lambda: marked(directory) == [])


def test_what_a_container_started_dies_with_it(provider: LocalProvider, tmp_path: Path) -> None:
    instance = launch(provider, "daemon")
    directory = directory_of(tmp_path, instance)
    wait(lambda: len(marked(directory)) == 3)
    provider.terminate(instance.provider_id)
    wait_for_end(provider, instance)
    wait(lambda: marked(directory) == [])


def test_terminating_an_instance_whose_shim_was_killed_ends_it(provider: LocalProvider, tmp_path: Path) -> None:
    instance = launch(provider, "daemon")
    directory = directory_of(tmp_path, instance)
    wait(lambda: len(marked(directory)) == 3)
    kill_shim(directory)
    provider.terminate(instance.provider_id)
    assert provider.describe([instance.provider_id]) == {}
    assert provider.find("t") is None
    wait(lambda: marked(directory) == [])


def test_stopping_everything_kills_what_does_not_listen(provider: LocalProvider, tmp_path: Path) -> None:
    patient = LocalProvider(tmp_path, {**environment(), "HEADRACE_RUNTIMES": json.dumps(RUNTIMES)}, grace_seconds=60)
    deaf, friendly = launch(patient, "deaf", "a"), launch(patient, "headrace/reference", "b")
    log = directory_of(tmp_path, deaf).path / "log"
    wait(lambda: log.exists() and log.read_text() == "deaf\n")
    assert stop.main(tmp_path, patience_seconds=0.5) == 0
    assert patient.describe([deaf.provider_id, friendly.provider_id]) == {}
    assert marked(directory_of(tmp_path, deaf)) == []


def test_a_container_that_prints_without_end_is_ended_and_its_log_is_bounded(
    provider: LocalProvider, tmp_path: Path
) -> None:
    instance = launch(provider, "flood")
    directory = directory_of(tmp_path, instance)
    wait((directory.path / "log.1").exists)
    provider.terminate(instance.provider_id)
    wait_for_end(provider, instance)
    assert 0 < sum(each.stat().st_size for each in directory.path.glob("log*")) <= 2 * shim.LOG_LIMIT_BYTES


@pytest.mark.parametrize("delay_seconds", [0.0, 0.02, 0.05, 0.08, 0.12])
def test_a_launch_killed_at_any_moment_is_finished_by_its_token(
    provider: LocalProvider, tmp_path: Path, delay_seconds: float
) -> None:
    command = [sys.executable, "-m", "tests.contract.launcher", "local", str(tmp_path), '["t"]']
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait((tmp_path / "local" / "lock").exists)
    threading.Event().wait(delay_seconds)
    launcher.kill()
    launcher.wait()
    repeated = launch(provider, "headrace/reference")
    assert [each.provider_id for each in provider.list_owned("us")] == [repeated.provider_id]
    wait(lambda: provider.describe([repeated.provider_id])[repeated.provider_id].status is InstanceStatus.RUNNING)
    assert len(marked(directory_of(tmp_path, repeated))) == 1


def test_a_directory_that_a_crash_left_half_made_is_no_instance_and_is_tidied(
    provider: LocalProvider, tmp_path: Path
) -> None:
    half = processes.root(tmp_path) / ("local-" + "a" * 24)
    half.mkdir(parents=True)
    assert provider.list_owned("us") == []
    launch(provider, "headrace/reference")
    assert not half.exists()


def test_only_the_newest_ended_instances_are_kept_for_their_logs(
    provider: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "KEPT_ENDED", 2)
    for number in range(4):
        instance = launch(provider, "headrace/reference", f"t{number}")
        provider.terminate(instance.provider_id)
        wait_for_end(provider, instance)
    last = launch(provider, "headrace/reference", "last")
    kept = {each.id for each in processes.directories(tmp_path)}
    assert last.provider_id in kept
    assert len(kept) == 3


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_an_environment_no_process_can_have_is_told_as_a_failed_start(provider: LocalProvider, value: str) -> None:
    asked = LaunchRequest("t", "us", TYPE, "local", "headrace/reference", environment={"NAME": value})
    provider.launch(asked)
    seen = wait(lambda: (i := provider.find("t")) and i.status is InstanceStatus.EXITED and i)
    assert seen.failure is StartFailure.CONTAINER_EXITED
    assert "cannot be started" in seen.detail


def test_the_shim_is_given_no_secret_it_does_not_need(tmp_path: Path) -> None:
    env = {**environment(), "HEADRACE_SECRET_KEY": "hush", "AWS_SECRET_ACCESS_KEY": "hush"}
    provider = LocalProvider(tmp_path, env, grace_seconds=0.3)
    directory = directory_of(tmp_path, launch(provider, "headrace/reference"))
    state = wait(lambda: directory.state)
    assert b"hush" not in Path(f"/proc/{state['pid']}/environ").read_bytes()
    assert "hush" not in (directory.path / "spec.json").read_text()
    assert directory.path.stat().st_mode & 0o077 == 0
    assert stop.main(tmp_path, patience_seconds=30.0) == 0


def test_an_ended_instance_leaves_no_child_with_its_launcher(provider: LocalProvider) -> None:
    instance = launch(provider, "headrace/reference")
    provider.terminate(instance.provider_id)
    wait_for_end(provider, instance)
    wait(lambda: not left_to_this_thread())


def left_to_this_thread() -> list[bytes]:
    """The commands of this thread's children that are shims, or dead and not asked after."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    names = []
    for child in children:
        with suppress(FileNotFoundError):  # it has gone since
            names.append(Path(f"/proc/{child}/cmdline").read_bytes())
    return [name for name in names if b"shim.py" in name or not name]
