"""Publishing to SNS topics.

    TopicRefused   the topic said no, and would again: no such topic, no leave to publish
    TopicAway      no answer, or: not now

boto3 blocks, so its calls run in threads.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    InvalidRegionError,
    NoCredentialsError,
    ParamValidationError,
)

THREADS = 8

REGIONS_LIMIT = 32
"""Clients that are kept; whoever names a topic names its region, and each client takes some memory."""

_REFUSALS = (InvalidRegionError, NoCredentialsError, ParamValidationError)
"""What no other try would change. An ARN may name a region that is none: `1`, or `-`."""

_AWAY = frozenset(
    {"InternalError", "InternalFailure", "ServiceUnavailable", "Throttled", "Throttling", "ThrottledException"}
)


class TopicRefused(Exception):
    """The topic said no."""


class TopicAway(Exception):
    """The topic did not answer, or cannot now."""


class Topics:
    """SNS clients, one for each region that a topic's ARN names; all at `endpoint_url` if there is one."""

    def __init__(self, endpoint_url: str, region: str) -> None:
        self._endpoint_url = endpoint_url or None
        self._region = region
        self._session = boto3.Session()
        self._clients: dict[str, Any] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="topics")

    async def publish(self, topic: str, message: str) -> None:
        """Send one message, without a subject; raises TopicRefused or TopicAway."""
        try:
            client = self._client(_region_of(topic) or self._region)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, lambda: client.publish(TopicArn=topic, Message=message))
        except _REFUSALS as error:
            raise TopicRefused(str(error)) from error
        except ClientError as error:
            raise _kind_of(error)(str(error)) from error
        except BotoCoreError as error:
            raise TopicAway(str(error)) from error

    def close(self) -> None:
        """Take no more messages; calls that run end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _client(self, region: str) -> Any:
        if region not in self._clients:
            if len(self._clients) >= REGIONS_LIMIT:
                self._clients.clear()
            self._clients[region] = self._session.client(
                "sns",
                endpoint_url=self._endpoint_url,
                region_name=region,
                config=Config(
                    connect_timeout=5, read_timeout=10, retries={"max_attempts": 2}, max_pool_connections=THREADS
                ),
            )
        return self._clients[region]


def _region_of(topic: str) -> str:
    """The region in `arn:partition:sns:region:account:name`."""
    parts = topic.split(":")
    return parts[3] if len(parts) > 5 else ""


def _kind_of(error: ClientError) -> type[TopicRefused | TopicAway]:
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if error.response["Error"].get("Code") in _AWAY or status == 429 or not 400 <= status < 500:
        return TopicAway
    return TopicRefused
