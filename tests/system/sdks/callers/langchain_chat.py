"""LangChain's ChatOpenAI."""

import json
import os
import sys

from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="", base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
pieces = [piece.content for piece in model.stream(sys.argv[1]) if piece.content]
print(json.dumps({"whole": model.invoke(sys.argv[1]).content, "streamed": "".join(pieces), "pieces": len(pieces)}))
