"""`python -m workers.providers.ec2.fake`: a fake EC2 until Ctrl-C."""

import argparse
import sys

from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import World


def main(arguments: list[str]) -> int:
    """Serve; returns the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m workers.providers.ec2.fake", description="A fake EC2 with fault knobs."
    )
    parser.add_argument("--port", type=int, default=0, help="of the API; 0 = any that is free")
    parser.add_argument("--machine-port", type=int, default=0, help="at which running instances answer; 0 = they do not")
    parser.add_argument("--subnet", action="append", metavar="SUBNET=ZONE", help="may be given several times")
    options = parser.parse_args(arguments)
    pairs = options.subnet or ["subnet-00000001=us-east-1a", "subnet-00000002=us-east-1b"]
    world = World(dict(pair.split("=", 1) for pair in pairs))
    with FakeEc2(world, options.port, options.machine_port) as fake:
        sys.stdout.write(f"HEADRACE_EC2_ENDPOINT_URL={fake.url}\n")
        sys.stdout.flush()
        try:
            fake.serve_until_ended()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
