"""The Compose file: it starts what the supervisor starts, in confined containers whose names, ports and paths agree."""

import importlib.util
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from controlplane.embedded import processes
from deploy.new_secrets import new_secrets
from tests.deploy.manifests import (
    CONTAINERFILE,
    DEPLOY,
    PROCESSES,
    ROOT,
    compose,
    environment_of,
    interpolated,
    names_read,
    seconds,
)

ENV = new_secrets()
OURS = (*PROCESSES, "migrate", "bootstrap")
ALLOWED = {"0.0.0.0", "127.0.0.1", "--workers-kill-timeout", "20"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(compose(ENV)["services"])


def words(argv: list[str]) -> list[str]:
    """A command without what may differ between one host and many: paths, ports, addresses, how many at once."""
    plain = [re.sub(r"^python[\d.]*$", "python", Path(word).name if "/" in word else word) for word in argv]
    return [word for word in plain if word not in ALLOWED and not word.isdecimal()]


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_runs_by_the_command_that_the_supervisor_uses(services: dict[str, Any], name: str) -> None:
    specs = {spec.name: spec for spec in processes.specs({}, Path("/data"), {"api": 8001, "gateway": 8000})}
    assert words(services[name]["command"]) == words(specs[name].argv)


def test_nothing_that_the_supervisor_runs_is_missing(services: dict[str, Any]) -> None:
    specs = processes.specs({}, Path("/data"), {"api": 8001, "gateway": 8000})
    assert {spec.name for spec in specs} <= set(services)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_is_one_that_the_code_reads(services: dict[str, Any], name: str) -> None:
    given = {key for key in environment_of(services[name], ENV) if key.startswith("HEADRACE_")}
    assert given
    assert given <= names_read()


@pytest.mark.parametrize("name", OURS)
def test_containers_are_confined(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service, "the image's own user, which is not root"
    assert "USER 10001:10001" in CONTAINERFILE.read_text()


@pytest.mark.parametrize("name", [*PROCESSES, "store", "model", "postgres", "valkey"])
def test_what_stays_is_bounded_and_started_again(services: dict[str, Any], name: str) -> None:
    assert services[name]["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}
    assert services[name]["restart"] == "unless-stopped"


def test_addresses_name_services_at_the_ports_they_listen_on(services: dict[str, Any]) -> None:
    env = environment_of(services["gateway"], ENV)
    listening = {
        "api": services["api"]["command"],
        "store": services["store"]["command"],
        "model": [services["model"]["environment"]["SAGEMAKER_BIND_TO_PORT"]],
        "postgres": ["5432"],
        "valkey": ["6379"],
    }
    addresses = [env["HEADRACE_SIMULATED_ADDRESS"]]
    addresses += [urlsplit(value).netloc.rpartition("@")[2] for value in env.values() if "://" in value]
    assert len(addresses) == 5
    for address in addresses:
        host, _, port = address.partition(":")
        assert host in services
        assert port in listening[host]
    assert services["gateway"]["ports"] == [f"8000-8001:{env['HEADRACE_PORT']}"]


def test_probes_ask_the_ports_and_roles_of_their_own_service(services: dict[str, Any]) -> None:
    assert services["api"]["healthcheck"]["test"][-1] == "http://127.0.0.1:8001/readyz"
    assert "8001" in services["api"]["command"]
    port = environment_of(services["gateway"], ENV)["HEADRACE_PORT"]
    assert services["gateway"]["healthcheck"]["test"][-1] == f"http://127.0.0.1:{port}/healthz"
    for name in ("worker", "scheduler"):
        assert services[name]["healthcheck"]["test"][-1] == name
    for name in PROCESSES:
        assert importlib.util.find_spec(services[name]["healthcheck"]["test"][3])


def test_a_container_is_given_the_time_that_its_process_takes_to_stop(services: dict[str, Any]) -> None:
    specs = {spec.name: spec for spec in processes.specs({}, Path("/data"), {"api": 8001, "gateway": 8000})}
    for name in PROCESSES:
        assert seconds(services[name]["stop_grace_period"]) > specs[name].stop_seconds
    drain = float(services["gateway"]["environment"]["HEADRACE_DRAIN_SECONDS"])
    assert seconds(services["gateway"]["stop_grace_period"]) >= drain + 10


def test_everything_waits_for_the_database_s_form(services: dict[str, Any]) -> None:
    for name in PROCESSES:
        assert services[name]["depends_on"]["bootstrap"] == {"condition": "service_completed_successfully"}
    assert services["bootstrap"]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert services["migrate"]["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert "healthcheck" in services["postgres"]


def test_volumes_are_declared_and_files_are_there(services: dict[str, Any]) -> None:
    declared = set(compose(ENV)["volumes"])
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in declared or (DEPLOY / "compose" / source).exists()


def test_no_secret_has_a_default_and_all_are_made_by_the_script() -> None:
    text = (DEPLOY / "compose/compose.yaml").read_text()
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    assert {"POSTGRES_PASSWORD", "VALKEY_PASSWORD", "HEADRACE_SECRET_ACCESS_KEY"} <= needed <= set(ENV)
    with pytest.raises(KeyError, match="new_secrets"):
        interpolated(text, {})


def test_images_are_named_with_a_version(services: dict[str, Any]) -> None:
    for service in services.values():
        name, _, tag = service["image"].rpartition(":")
        assert name
        assert tag not in ("", "latest")


def test_what_the_image_copies_is_there_and_not_kept_out() -> None:
    text = CONTAINERFILE.read_text()
    sources = [source for source in re.findall(r"^COPY (\S+) ", text, re.MULTILINE) if not source.startswith("--")]
    kept = Path(f"{CONTAINERFILE}.dockerignore").read_text().splitlines()
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in kept
    assert {"controlplane", "workers", "manage.py", "requirements.lock"} <= set(sources)
    assert "--require-hashes" in text
