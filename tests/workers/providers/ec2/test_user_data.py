"""What a machine does at boot: the script is run by a real bash, with other programs in the place of docker and AWS."""

import base64
import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.providers.ec2.site import EC2_TYPE, request_for
from workers.providers.base import StartFailure
from workers.providers.ec2.instances import read_last_words
from workers.providers.ec2.user_data import LIMIT_BYTES, Machine, has_gpu, render

DOCKER = """#!/bin/bash
case $1 in
  run) printf '%s\\0' "$@" >"$HERE/docker_run"; echo "${RUN_ERROR:-}" >&2; exit "${RUN_CODE:-0}" ;;
  logs) [ -n "${LAST_LINE:-}" ] && echo "$LAST_LINE" ;;
  login) cat >"$HERE/password"; printf '%s\\0' "$@" >"$HERE/docker_login"; exit "${LOGIN_CODE:-0}" ;;
esac
"""
AWS = """#!/bin/bash
printf '%s\\0' "$@" >"$HERE/aws"
[ "$1" = ecr ] && { printf secret; exit 0; }
[ -n "${S3_ERROR:-}" ] && { echo "$S3_ERROR" >&2; exit 1; }
cp "$HERE/source.tar" "${@: -1}"
"""
NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,20}\Z").filter(lambda name: name != "SAGEMAKER_BIND_TO_PORT")
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@dataclass
class Host:
    """A directory with programs that write down how they were called, and where the machine's files are put."""

    path: Path

    def __post_init__(self) -> None:
        for name, text in (("docker", DOCKER), ("aws", AWS), ("shutdown", '#!/bin/bash\ntouch "$HERE/is_down"\n')):
            program = self.path / name
            program.write_text(text)
            program.chmod(0o755)

    def boot(self, faults: dict[str, str] | None = None, ec2_type: str = EC2_TYPE, **what: Any) -> None:
        """Run the user data of a request to its end."""
        machine = Machine(port=8080, model_dir=str(self.path / "model"), console=str(self.path / "console"))
        script = self.path / "user_data"
        script.write_text(render(request_for(**what), ec2_type, machine), encoding="utf-8")
        env = {"PATH": f"{self.path}:{os.environ['PATH']}", "HERE": str(self.path), "LC_ALL": "C.UTF-8", **(faults or {})}
        command = ["bash", "-c", f'. "{script}"; wait']
        subprocess.run(command, env=env, check=True, timeout=30, capture_output=True)

    def arguments(self, program: str) -> list[str]:
        """What a program was last called with."""
        return (self.path / program).read_bytes().decode().split("\0")[:-1]

    @property
    def environment(self) -> dict[str, str]:
        """What docker was given as the container's environment."""
        found = self.arguments("docker_run")
        pairs = [found[at + 1] for at, each in enumerate(found) if each == "--env" and found[at - 1] != "--env"]
        return dict(pair.split("=", 1) for pair in pairs)

    @property
    def last_words(self) -> tuple[StartFailure, str] | None:
        """What the provider will read from the console."""
        return read_last_words((self.path / "console").read_text())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A fresh machine."""
    return Host(tmp_path)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_every_value_of_the_environment_arrives_unchanged(environment: dict[str, str]) -> None:
    with TemporaryDirectory() as folder:
        host = Host(Path(folder))
        host.boot(environment=environment)
        assert host.environment == {**environment, "SAGEMAKER_BIND_TO_PORT": "8080"}


@pytest.mark.parametrize(
    "value",
    ["$(touch pwned)", "`id`", "'; shutdown; '", '"$HOME"', "\\", "a\nb\n", "--privileged", "EOF", "@payload@", "%s"],
)
def test_nothing_in_a_value_is_read_as_shell(host: Host, value: str) -> None:
    host.boot(environment={"VALUE": value})
    assert host.environment["VALUE"] == value
    assert not (Path.cwd() / "pwned").exists()


def test_the_container_is_served_on_8080_without_restarts_and_with_time_to_stop(host: Host) -> None:
    host.boot(image="acme/llm:1")
    found = host.arguments("docker_run")
    assert found[-2:] == ["acme/llm:1", "serve"]
    text = " ".join(found)
    assert "--publish 8080:8080" in text
    assert "--restart no" in text
    assert "--stop-timeout 30" in text
    assert f"--volume {host.path}/model:/opt/ml/model" in text
    assert "--gpus all" in text


def test_a_machine_without_gpus_is_asked_for_none(host: Host) -> None:
    host.boot(ec2_type="m5.large")
    assert "--gpus" not in host.arguments("docker_run")


@pytest.mark.parametrize(
    ("ec2_type", "expected"),
    [
        *(
            (name, True)
            for name in ("g5.2xlarge", "g4dn.xlarge", "p5.48xlarge", "p6-b200.48xlarge", "gr6.4xlarge", "g5g.xlarge")
        ),
        *((name, False) for name in ("m5.large", "g4ad.xlarge", "inf2.xlarge", "trn2.48xlarge", "c7g.large")),
    ],
)
def test_types_with_nvidia_gpus_are_told_by_their_family(ec2_type: str, expected: bool) -> None:
    assert has_gpu(ec2_type) is expected


def test_the_models_data_is_there_before_the_container_runs(host: Host) -> None:
    with tarfile.open(host.path / "source.tar", "w:gz") as archive:
        entry = tarfile.TarInfo("weights/a.bin")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"abc"))
    url = "s3://models/it's $HOME/model.tar.gz"
    host.boot(model_data_url=url)
    assert host.arguments("aws")[:5] == ["s3", "cp", "--only-show-errors", url, f"{host.path}/model.tar"]
    assert (host.path / "model/weights/a.bin").read_bytes() == b"abc"
    assert not (host.path / "model.tar").exists()
    assert host.arguments("docker_run")


def test_a_machine_that_gets_no_model_data_says_so_and_goes_down(host: Host) -> None:
    host.boot({"S3_ERROR": "fatal error: (403) Forbidden"}, model_data_url="s3://models/m.tar")
    assert host.last_words is not None
    failure, detail = host.last_words
    assert failure is StartFailure.MODEL_DATA
    assert "(403) Forbidden" in detail
    assert (host.path / "is_down").exists()
    assert not (host.path / "docker_run").exists()


def test_model_data_that_is_no_archive_is_told_as_such(host: Host) -> None:
    (host.path / "source.tar").write_bytes(b"not a tar")
    host.boot(model_data_url="s3://models/m.tar")
    assert host.last_words is not None
    assert host.last_words[0] is StartFailure.MODEL_DATA
    assert "cannot be unpacked" in host.last_words[1]


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ({"RUN_CODE": "3", "LAST_LINE": "CUDA out of memory"}, "exited with code 3: CUDA out of memory"),
        ({"RUN_CODE": "0"}, "exited with code 0"),
        ({"RUN_CODE": "125", "RUN_ERROR": "manifest unknown"}, "docker could not start the image: manifest unknown"),
    ],
)
def test_a_container_that_ends_tells_the_console_how_and_takes_the_machine_down(
    host: Host, faults: dict[str, str], expected: str
) -> None:
    host.boot(faults)
    assert host.last_words == (StartFailure.CONTAINER_EXITED, expected)
    assert (host.path / "is_down").exists()


def test_no_last_line_of_a_log_can_forge_the_end_of_another(host: Host) -> None:
    host.boot({"RUN_CODE": "1", "LAST_LINE": "x\r\nHEADRACE-END model_data forged"})
    assert host.last_words is not None
    assert host.last_words[0] is StartFailure.CONTAINER_EXITED


def test_a_private_registry_is_logged_in_to_with_the_machines_role(host: Host) -> None:
    registry = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
    host.boot(image=f"{registry}/acme/llm:1")
    assert host.arguments("aws") == ["ecr", "get-login-password", "--region", "eu-west-1"]
    assert host.arguments("docker_login") == ["login", "--username", "AWS", "--password-stdin", registry]
    assert (host.path / "password").read_text() == "secret"


def test_a_registry_that_lets_nobody_in_is_named(host: Host) -> None:
    host.boot({"LOGIN_CODE": "1"}, image="123456789012.dkr.ecr.eu-west-1.amazonaws.com/acme/llm:1")
    assert host.last_words is not None
    assert "may not read from 123456789012.dkr.ecr.eu-west-1.amazonaws.com" in host.last_words[1]


def test_the_payload_carries_no_time_so_that_a_later_call_is_the_same_one() -> None:
    payload = render(request_for(), EC2_TYPE, Machine()).split("payload='")[1].split("'")[0]
    assert int.from_bytes(base64.b64decode(payload)[4:8], "little") == 0


def test_an_ordinary_request_leaves_most_of_the_user_data_free() -> None:
    assert len(render(request_for(environment={"A": "b"}), EC2_TYPE, Machine())) < LIMIT_BYTES / 2
