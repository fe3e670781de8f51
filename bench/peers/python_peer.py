"""The grader as a Ray actor, or in a ProcessPoolExecutor, driven from Python.

    python_peer.py ray|pool BODY_FILE IN_FLIGHT SECONDS

Prints the calls answered in a second.
"""

import json
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import Any


def grade(request: dict[str, Any]) -> float:
    """Is the last message the answer?"""
    last = request["trajectory"]["messages"][-1]["content"]
    return float(last == request["sample"]["extra"]["answer"])


def with_pool(request: dict[str, Any], in_flight: int, seconds: float) -> float:
    """Two workers, one a core."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        pending = {pool.submit(grade, request) for _ in range(in_flight)}
        wait(pending, return_when=FIRST_COMPLETED)
        answered, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            answered += len(done)
            pending |= {pool.submit(grade, request) for _ in done}
        rate = answered / (time.perf_counter() - start)
        for future in pending:
            future.cancel()
        return rate


def with_ray(request: dict[str, Any], in_flight: int, seconds: float) -> float:
    """One actor."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)

    @ray.remote
    class Grader:
        def grade(self, request: dict[str, Any]) -> float:
            return grade(request)

    actor = Grader.remote()
    ray.get(actor.grade.remote(request))
    pending = [actor.grade.remote(request) for _ in range(in_flight)]
    answered, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        done, pending = ray.wait(pending, num_returns=min(16, in_flight))
        ray.get(done)
        answered += len(done)
        pending += [actor.grade.remote(request) for _ in done]
    rate = answered / (time.perf_counter() - start)
    ray.shutdown()
    return rate


def main() -> None:
    """Runs one measurement."""
    peer, body, in_flight, seconds = sys.argv[1:]
    with open(body, encoding="utf-8") as file:
        request = json.load(file)
    measure = {"ray": with_ray, "pool": with_pool}[peer]
    print(measure(request, int(in_flight), float(seconds)))


if __name__ == "__main__":
    main()
