"""The user data of an instance: `boot.sh` and its payload.

    payload := base64(gzip(field NUL field NUL ...))
    fields  := console, model directory, model data URL, download seconds, registry, registry's region,
               number of docker options, docker options..., image, command...

Nothing that a user wrote is ever part of the script: the payload is one word of base64, and the script hands its fields on
as arguments. The same request gives the same bytes, since EC2 compares the parameters of launches with one token.
"""

import base64
import gzip
import re
from dataclasses import dataclass
from pathlib import Path

from workers.providers.base import LaunchRequest
from workers.providers.errors import ErrorKind, ProviderError

LIMIT_BYTES = 16 * 1024
"""What EC2 takes as user data, before its base64."""

CONTAINER_PORT = 8080
STOP_GRACE_SECONDS = 30
"""The container contract: SIGTERM, then 30 s, then SIGKILL."""

END_MARK = "HEADRACE-END"

_SCRIPT = Path(__file__).with_name("boot.sh")
_ECR = re.compile(r"(\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?)/\S+")
_GPU_FAMILY = re.compile(r"(p\d|g\d|gr\d)[a-z0-9-]*\.")
_OTHER_MAKERS_GPU = re.compile(r"g4ad\.")


@dataclass(frozen=True)
class Machine:
    """Where things are on the machine: the container's 8080 is published at `port`."""

    port: int = CONTAINER_PORT
    model_dir: str = "/opt/ml/model"
    console: str = "/dev/console"


def render(request: LaunchRequest, ec2_type: str, machine: Machine) -> str:
    """The script that runs this request's container; raises MISCONFIGURED for what no machine could run."""
    fields = _fields(request, ec2_type, machine)
    if any("\0" in field for field in fields):
        raise ProviderError(ErrorKind.MISCONFIGURED, "The container's image, Environment or model data URL holds a NUL.")
    packed = gzip.compress("".join(f"{field}\0" for field in fields).encode("utf-8", "surrogateescape"), mtime=0)
    script = _SCRIPT.read_text().replace("@payload@", base64.b64encode(packed).decode())
    if len(script) > LIMIT_BYTES:
        message = (
            f"The container's image and Environment make {len(script)} bytes of user data; EC2 takes {LIMIT_BYTES}. "
            "Make the Environment smaller."
        )
        raise ProviderError(ErrorKind.MISCONFIGURED, message)
    return script


def has_gpu(ec2_type: str) -> bool:
    """Whether docker is to be asked for the machine's NVIDIA GPUs, told by EC2's family names."""
    return bool(_GPU_FAMILY.match(ec2_type)) and not _OTHER_MAKERS_GPU.match(ec2_type)


def _fields(request: LaunchRequest, ec2_type: str, machine: Machine) -> list[str]:
    image, url = request.image, request.model_data_url
    if not image or image.startswith("-") or any(character.isspace() for character in image):
        raise ProviderError(ErrorKind.MISCONFIGURED, f"{image!r} names no image.")
    if url and not url.startswith("s3://"):
        raise ProviderError(ErrorKind.MISCONFIGURED, "Model data is fetched from s3://bucket/key only.")
    found = _ECR.fullmatch(image)
    registry, region = (found[1], found[2]) if found else ("", "")
    options = _docker_options(request, ec2_type, machine)
    seconds = str(request.model_data_download_timeout_seconds)
    return [machine.console, machine.model_dir, url, seconds, registry, region, str(len(options)), *options, image, "serve"]


def _docker_options(request: LaunchRequest, ec2_type: str, machine: Machine) -> list[str]:
    options = [
        *("--restart", "no", "--stop-timeout", str(STOP_GRACE_SECONDS)),
        *("--publish", f"{machine.port}:{CONTAINER_PORT}", "--volume", f"{machine.model_dir}:/opt/ml/model"),
        *(("--gpus", "all") if has_gpu(ec2_type) else ()),
    ]
    environment = {**request.environment, "SAGEMAKER_BIND_TO_PORT": str(CONTAINER_PORT)}
    for name, value in sorted(environment.items()):
        if not name or "=" in name:
            raise ProviderError(ErrorKind.MISCONFIGURED, f"{name!r} cannot be the name of an environment variable.")
        options += ["--env", f"{name}={value}"]
    return options
