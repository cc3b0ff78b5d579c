"""What a data directory remembers from run to run."""

import json
import socket
from pathlib import Path

from controlplane.embedded.kept import mark_announced, read_ports, read_secrets
from tests.controlplane.routing.peers import free_port


def test_secrets_are_made_once_and_readable_by_their_owner_alone(tmp_path: Path) -> None:
    first, _ = read_secrets(tmp_path)
    again, _ = read_secrets(tmp_path)
    assert again == first
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_keys_stay_new_until_they_were_shown(tmp_path: Path) -> None:
    assert read_secrets(tmp_path)[1]
    assert read_secrets(tmp_path)[1], "a start that failed before the banner has shown nothing"
    mark_announced(tmp_path)
    assert not read_secrets(tmp_path)[1]


def test_a_missing_secret_is_added_beside_the_kept_ones(tmp_path: Path) -> None:
    kept, _ = read_secrets(tmp_path)
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({name: value for name, value in kept.items() if name != "admin_password"}))
    completed, _ = read_secrets(tmp_path)
    assert completed["admin_password"]
    assert completed["secret_key"] == kept["secret_key"]


def test_ports_are_kept_while_free_and_picked_again_when_taken(tmp_path: Path) -> None:
    ports = read_ports(tmp_path, ["a", "b"])
    assert json.loads((tmp_path / "ports.json").read_text()) == ports
    ports = {"a": free_port(), "b": free_port()}  # which nobody takes meanwhile
    (tmp_path / "ports.json").write_text(json.dumps(ports))
    assert read_ports(tmp_path, ["a", "b"]) == ports
    with socket.create_server(("127.0.0.1", ports["a"])):
        moved = read_ports(tmp_path, ["a", "b"])
    assert moved["a"] != ports["a"]
    assert moved["b"] == ports["b"]
