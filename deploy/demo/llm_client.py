"""One chat, asked with the OpenAI SDK as it is: `python llm_client.py BASE_URL TOKEN`, in the environment that has the SDK.

stdin    a JSON line for each call: {"messages": [...], "max_tokens": N}
stdout   a JSON line for each answer: {"text", "pieces", "first_seconds", "seconds", "prompt_tokens", "cached_tokens",
         "completion_tokens"}
"""

import json
import sys
import time
from typing import Any

from openai import OpenAI


def ask(client: OpenAI, model: str, call: dict[str, Any]) -> dict[str, Any]:
    """Stream one answer; the time to its first words is the time to its first piece that has any."""
    started = time.monotonic()
    first = 0.0
    pieces: list[str] = []
    usage = None
    stream = client.chat.completions.create(
        model=model, stream=True, stream_options={"include_usage": True}, temperature=0, **call
    )
    for event in stream:
        text = event.choices[0].delta.content if event.choices else None
        if text:
            first = first or time.monotonic() - started
            pieces.append(text)
        usage = event.usage or usage
    details = usage.prompt_tokens_details if usage else None
    return {
        "text": "".join(pieces),
        "pieces": len(pieces),
        "first_seconds": first,
        "seconds": time.monotonic() - started,
        "prompt_tokens": usage.prompt_tokens if usage else 0,
        "cached_tokens": (details.cached_tokens or 0) if details else 0,
        "completion_tokens": usage.completion_tokens if usage else 0,
    }


def main() -> None:
    """Answer calls until stdin ends."""
    client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0, timeout=300)
    model = client.models.list().data[0].id
    for line in sys.stdin:
        print(json.dumps(ask(client, model, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
