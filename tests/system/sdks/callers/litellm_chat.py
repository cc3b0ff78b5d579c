"""LiteLLM's completion, with the provider it calls OpenAI-compatible."""

import json
import os
import sys

import litellm

where = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
asked = {"model": "openai/any", "messages": [{"role": "user", "content": sys.argv[1]}], **where}
whole = litellm.completion(**asked).choices[0].message.content
deltas = [piece.choices[0].delta.content for piece in litellm.completion(**asked, stream=True)]
pieces = [delta for delta in deltas if delta]
print(json.dumps({"whole": whole, "streamed": "".join(pieces), "pieces": len(pieces)}))
