"""Control-plane operations a second beside a moto server, by the same boto3 client.

The cycle is CreateModel, CreateEndpointConfig, DescribeEndpointConfig, DeleteEndpointConfig, DeleteModel: what both
answer synchronously. (moto's endpoints are InService at birth; Headrace's are provisioned.)
"""

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controlplane.embedded.store import accepts
from tests import aws
from tests.perf.measure import interleaved, show
from tests.system.stack import PLENTY, Stack

MOTO_PORT = 18082
_numbers = itertools.count()


def run(stack: Stack) -> None:
    """Measure with 1 and 8 threads, moto and Headrace taking turns."""
    moto_server = str(Path(sys.executable).with_name("moto_server"))
    moto = subprocess.Popen(
        [moto_server, "-H", "127.0.0.1", "-p", str(MOTO_PORT)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        pause = threading.Event()
        while not accepts(MOTO_PORT):
            pause.wait(0.1)
        rivals = {
            "moto (in memory)": lambda: _cycle(_moto_client()),
            "Headrace (durable)": lambda: _cycle(stack.client("sagemaker")),
        }
        for workers in (1, 8):
            rates = interleaved(rivals, workers)
            show(f"Lifecycle operations, {workers} boto3 thread(s)", rates, "Headrace (durable)", "moto (in memory)")
    finally:
        moto.terminate()
        moto.wait()


def _moto_client() -> Any:
    return aws.client(
        "sagemaker",
        endpoint_url=f"http://127.0.0.1:{MOTO_PORT}",
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )


def _cycle(client: Any) -> Callable[[], int]:
    def cycle() -> int:
        name = f"bench-{next(_numbers)}"
        role = "arn:aws:iam::123456789012:role/any"
        client.create_model(ModelName=name, PrimaryContainer={"Image": "any"}, ExecutionRoleArn=role)
        variant = {"VariantName": "v", "ModelName": name, "InitialInstanceCount": 1, "InstanceType": PLENTY}
        client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
        client.describe_endpoint_config(EndpointConfigName=name)
        client.delete_endpoint_config(EndpointConfigName=name)
        client.delete_model(ModelName=name)
        return 5

    return cycle
