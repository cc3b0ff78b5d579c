"""Clients that are not ours, each as it is published, in an environment of their own.

    requirements.in   Python's: LangChain, LiteLLM, Strands Agents, and the public generator of bearer tokens
    javascript/       JavaScript's: OpenAI's and AWS's
    callers/          one short program for each, which prints what it heard as JSON

Each caller is told by OPENAI_BASE_URL and OPENAI_API_KEY, or by AWS's own variables, where Headrace is and who calls; it
says HELLO once in one piece and once as a stream, and prints {"whole": text, "streamed": text, "pieces": number}.
"""

HELLO = "good day to you"
"""What every caller says; the reference container repeats it."""
