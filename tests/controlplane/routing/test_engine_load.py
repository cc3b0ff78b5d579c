"""What an engine says of itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.engine_load import STALE_SECONDS, EngineLoad, parse

VLLM = """
# HELP vllm:num_requests_running Requests in the batch.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running_of_another_kind{engine="0"} 99
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="1000",engine="0"} 1.0
vllm:time_to_first_token_seconds_bucket{le="0.1"} 7
"""
SGLANG = """
sglang:num_running_reqs{model_name="m"} 3
sglang:num_queue_reqs{model_name="m"} 2
sglang:token_usage{model_name="m"} 0.25
sglang:cache_config_info{page_size="64",num_pages="250"} 1.0
"""


@pytest.mark.parametrize(
    "page", [VLLM, VLLM.replace("kv_cache_usage_perc", "gpu_cache_usage_perc"), SGLANG], ids=["vllm", "old vllm", "sglang"]
)
def test_each_engine_is_understood(page: str) -> None:
    assert parse(page, 5.0) == EngineLoad(5.0, running=3, waiting=2, usage=0.25, cache_tokens=16_000)


def test_several_engines_behind_one_address_add_up_and_the_fullest_cache_counts() -> None:
    page = (
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        'vllm:num_requests_waiting{engine="0"} 0\nvllm:num_requests_waiting{engine="1"} 1\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.1\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
    )
    assert parse(page, 0.0) == EngineLoad(0.0, running=7, waiting=1, usage=0.9)


@pytest.mark.parametrize("page", ["", "up 1\n", "<html>", "vllm:kv_cache_usage_perc 0.5\n", "vllm:num_requests_running\n"])
def test_a_page_that_does_not_say_how_many_calls_there_are_says_nothing(page: str) -> None:
    assert parse(page, 0.0) is None


@pytest.mark.parametrize("written", ["NaN", "+Inf", "-1", "many"])
def test_a_number_that_is_none_is_left_out(written: str) -> None:
    assert parse(f"vllm:num_requests_running 1\nvllm:kv_cache_usage_perc {written}\n", 0.0) == EngineLoad(0.0, running=1)


@given(st.text())
def test_no_page_raises_anything(page: str) -> None:
    load = parse(page + "\nvllm:num_requests_running " + page, 0.0)
    assert load is None or load.running >= 0


def test_a_load_is_stale_after_three_rounds() -> None:
    load = EngineLoad(at=10.0)
    assert load.is_fresh(10.0 + STALE_SECONDS)
    assert not load.is_fresh(10.1 + STALE_SECONDS)


@pytest.mark.parametrize(("waiting", "usage", "expected"), [(4, 0.79, False), (5, 0.0, True), (0, 0.8, True)])
def test_a_queue_or_a_full_cache_saturates(waiting: float, usage: float, expected: bool) -> None:
    assert EngineLoad(0.0, waiting=waiting, usage=usage).is_saturated is expected
