"""A Strands agent without tools; Strands always streams, so its two answers come by one way."""

import asyncio
import json
import os
import sys

from strands import Agent
from strands.models.openai import OpenAIModel

where = {"base_url": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}


def agent() -> Agent:
    """One that remembers nothing yet."""
    return Agent(model=OpenAIModel(client_args=where, model_id="any"), callback_handler=None)


async def stream(said: str) -> list[str]:
    """The pieces of the answer."""
    return [event["data"] async for event in agent().stream_async(said) if "data" in event]


pieces = asyncio.run(stream(sys.argv[1]))
print(json.dumps({"whole": str(agent()(sys.argv[1])).strip(), "streamed": "".join(pieces), "pieces": len(pieces)}))
