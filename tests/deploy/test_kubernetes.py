"""The Kubernetes manifests: valid, confined, and the same processes as in Compose, probed where they answer."""

import json
from typing import Any

import kubernetes_validate
import pytest
import yaml

from deploy.new_secrets import new_secrets
from tests.deploy.manifests import DEPLOY, PROCESSES, compose, documents, environment_of, names_read, objects

VERSION = "1.37"
SECRETS = new_secrets()
CLIENTS_OF_A_PREPARED_DATABASE = [f"headrace-{name}" for name in PROCESSES]


@pytest.fixture(scope="module")
def deployments() -> dict[str, dict[str, Any]]:
    return objects("base", "Deployment")


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    return dict(workload["spec"]["template"]["spec"])


def containers(workload: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod(workload).get("initContainers", []), *pod(workload)["containers"]]


def workloads() -> list[dict[str, Any]]:
    kinds = ("Deployment", "StatefulSet", "Job")
    return [each for folder in ("base", "engines") for each in documents(folder) if each["kind"] in kinds]


def named(each: dict[str, Any]) -> str:
    return f"{each['kind']}-{each['metadata']['name']}"


@pytest.mark.parametrize("folder", ["base", "engines"])
def test_every_object_is_valid_by_the_schema_and_every_file_is_named(folder: str) -> None:
    found = list(documents(folder))
    for each in found:
        kubernetes_validate.validate(each, VERSION, strict=True)
    named_files = yaml.safe_load((DEPLOY / "kubernetes" / folder / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in (DEPLOY / "kubernetes" / folder).glob("*.yaml")}
    assert {*named_files, "kustomization.yaml"} == files


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_runs_by_the_command_that_compose_uses(deployments: dict[str, Any], name: str) -> None:
    [container] = pod(deployments[f"headrace-{name}"])["containers"]
    service = compose(SECRETS)["services"][name]
    assert [*container["command"], *container.get("args", [])] == service["command"]
    same = {key: value for key, value in service["environment"].items() if key.startswith(("HEADRACE_HOST", "HEADRACE_PO"))}
    assert {each["name"]: each["value"] for each in container.get("env", [])}.items() >= same.items()


@pytest.mark.parametrize("workload", workloads(), ids=named)
def test_no_container_is_root_or_writes_its_image(workload: dict[str, Any]) -> None:
    context = pod(workload)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(workload)["automountServiceAccountToken"] is False
    assert pod(workload)["enableServiceLinks"] is False, "variables of service links begin like our settings"
    for container in containers(workload):
        assert container["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_every_mount_has_a_volume() -> None:
    for workload in workloads():
        volumes = {each["name"] for each in pod(workload).get("volumes", [])}
        volumes |= {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", [])}
        for container in containers(workload):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_probes_ask_named_ports_for_paths_that_the_process_answers(deployments: dict[str, Any]) -> None:
    for name in ("api", "gateway"):
        [container] = pod(deployments[f"headrace-{name}"])["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["path"] in ("/healthz", "/readyz")
            assert ports[asked["port"]] == (8001 if name == "api" else 8000)
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz", "a database that is away restarts nothing"


def test_a_gateway_stays_ready_while_the_database_is_away(deployments: dict[str, Any]) -> None:
    [container] = pod(deployments["headrace-gateway"])["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["startupProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_what_has_no_port_is_alive_by_its_heartbeat(deployments: dict[str, Any], role: str) -> None:
    [container] = pod(deployments[f"headrace-{role}"])["containers"]
    health = compose(SECRETS)["services"][role]["healthcheck"]["test"]
    for probe in ("startupProbe", "livenessProbe"):
        assert ["CMD", *container[probe]["exec"]["command"]] == health


def test_there_are_several_of_each_spread_and_kept_while_nodes_go(deployments: dict[str, Any]) -> None:
    budgets = objects("base", "PodDisruptionBudget")
    for name, deployment in deployments.items():
        assert deployment["spec"]["replicas"] >= 2
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert budgets[name]["spec"]["selector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
        assert budgets[name]["spec"]["maxUnavailable"] == 1
        [spread] = pod(deployment)["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"].items() <= labels.items()


def test_a_pod_is_given_the_time_that_its_process_takes_to_stop(deployments: dict[str, Any]) -> None:
    [gateway] = pod(deployments["headrace-gateway"])["containers"]
    drain = next(int(each["value"]) for each in gateway["env"] if each["name"] == "HEADRACE_DRAIN_SECONDS")
    pause = gateway["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod(deployments["headrace-gateway"])["terminationGracePeriodSeconds"] >= pause + drain + 10
    for name in ("worker", "scheduler"):
        assert pod(deployments[f"headrace-{name}"])["terminationGracePeriodSeconds"] >= 45


def test_services_lead_to_pods_and_settings_to_services(deployments: dict[str, Any]) -> None:
    for folder, kind in (("base", "Deployment"), ("engines", "StatefulSet")):
        running = objects(folder, kind)
        for name, service in objects(folder, "Service").items():
            assert service["spec"]["selector"].items() <= running[name]["spec"]["template"]["metadata"]["labels"].items()
            ports = {port["name"] for port in pod(running[name])["containers"][0]["ports"]}
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    config = objects("base", "ConfigMap")["headrace"]["data"]
    [port] = objects("base", "Service")["headrace-api"]["spec"]["ports"]
    assert config["HEADRACE_API_URL"] == f"http://headrace-api:{port['port']}"
    assert "@postgres:5432/" in SECRETS["HEADRACE_DATABASE_URL"]
    assert "@valkey:6379/" in SECRETS["HEADRACE_REDIS_URL"]
    assert objects("engines", "Service").keys() == {"postgres", "valkey"}


def test_every_setting_is_one_that_the_code_reads_and_every_secret_is_made() -> None:
    config = objects("base", "ConfigMap")["headrace"]["data"]
    assert set(config) <= names_read()
    assert json.loads(config["HEADRACE_EC2_SUBNETS"])
    for workload in workloads():
        for container in containers(workload):
            for each in container.get("env", []):
                if "valueFrom" in each:
                    assert each["valueFrom"]["secretKeyRef"]["key"] in SECRETS
                elif each["name"].startswith("HEADRACE_"):
                    assert each["name"] in names_read()


def test_the_job_prepares_the_database_before_anything_else_begins(deployments: dict[str, Any]) -> None:
    services = compose(SECRETS)["services"]
    job = objects("base", "Job")["headrace-prepare"]
    assert pod(job)["initContainers"][0]["command"] == services["migrate"]["command"]
    assert pod(job)["containers"][0]["command"] == services["bootstrap"]["command"]
    for name in CLIENTS_OF_A_PREPARED_DATABASE:
        [first] = pod(deployments[name])["initContainers"]
        assert first["command"] == ["python", "manage.py", "migrate", "--check"]


def test_the_example_changes_what_the_base_has() -> None:
    example = yaml.safe_load((DEPLOY / "kubernetes/example/kustomization.yaml").read_text())
    assert example["resources"] == ["../base", "../engines"]
    images = {container["image"] for workload in workloads() for container in containers(workload)}
    assert {each["name"] for each in example["images"]} <= images
    config = objects("base", "ConfigMap")["headrace"]["data"]
    for patch in example["patches"]:
        for change in yaml.safe_load(patch["patch"]):
            assert change["path"].removeprefix("/data/") in config


def test_only_gateways_and_scrapers_reach_the_api(deployments: dict[str, Any]) -> None:
    policy = objects("base", "NetworkPolicy")["headrace-api"]["spec"]
    labels = deployments["headrace-api"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    gateway = deployments["headrace-gateway"]["spec"]["template"]["metadata"]["labels"]
    selectors = [each["podSelector"]["matchLabels"] for each in policy["ingress"][0]["from"] if "podSelector" in each]
    assert selectors == [gateway]
    assert environment_of(compose(SECRETS)["services"]["api"], SECRETS)["HEADRACE_METRICS_TOKEN"]
