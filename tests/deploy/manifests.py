"""Reading what deploys Headrace as the tools would: Compose's variables put in, kustomizations followed."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "images/headrace/Containerfile"
IMAGE_DATA_DIR = "/var/lib/headrace"
PROCESSES = ("gateway", "api", "worker", "scheduler")

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\})")


def interpolated(text: str, env: Mapping[str, str]) -> str:
    """`${NAME}`, `${NAME:-default}` and `${NAME:?what to do}` as Compose reads them; `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        found = env.get(match["name"], "")
        if match["kind"] == "?" and not found:
            raise KeyError(f"{match['name']}: {match['rest']}")
        return found or (match["rest"] if match["kind"] == "-" else "")

    return _VARIABLE.sub(value, text)


def compose(env: Mapping[str, str]) -> dict[str, Any]:
    """The Compose file with these variables."""
    document: dict[str, Any] = yaml.safe_load(interpolated((DEPLOY / "compose/compose.yaml").read_text(), env))
    return document


def environment_of(service: dict[str, Any], env_file: Mapping[str, str]) -> dict[str, str]:
    """What a service's processes see: the image's own, then the file's, then the service's."""
    image = image_environment() if str(service["image"]).startswith("headrace") else {}
    return {**image, **(env_file if service.get("env_file") else {}), **service.get("environment", {})}


def image_environment() -> dict[str, str]:
    """The ENV of the image that runs, but for PATH, which is that of the test."""
    last = CONTAINERFILE.read_text().split("\nFROM ")[-1].replace("\\\n", " ")
    pairs = re.findall(r"(\w+)=(\S+)", " ".join(re.findall(r"^ENV (.*)$", last, re.MULTILINE)))
    return {name: value for name, value in pairs if name != "PATH"}


def documents(folder: str) -> Iterator[dict[str, Any]]:
    """Every object of a kustomization, in its order."""
    base = DEPLOY / "kubernetes" / folder
    for name in yaml.safe_load((base / "kustomization.yaml").read_text())["resources"]:
        yield from yaml.safe_load_all((base / name).read_text())


def objects(folder: str, kind: str) -> dict[str, dict[str, Any]]:
    """Name -> object of one kind."""
    return {each["metadata"]["name"]: each for each in documents(folder) if each["kind"] == kind}


def seconds(duration: str) -> float:
    """A Compose duration of seconds, as `30s`."""
    assert duration.endswith("s")
    return float(duration.removesuffix("s"))


def names_read() -> set[str]:
    """Every HEADRACE_ variable that the product's code names, whole or by its family's prefix."""
    code = "\n".join(path.read_text() for top in ("controlplane", "workers") for path in (ROOT / top).rglob("*.py"))
    found = set(re.findall(r"HEADRACE_[A-Z0-9_]*[A-Z0-9]", code))
    ec2 = (ROOT / "workers/providers/ec2/settings.py").read_text()
    return found | {f"HEADRACE_EC2_{name}" for name in re.findall(r"\"([A-Z_]+)\"", ec2)}
