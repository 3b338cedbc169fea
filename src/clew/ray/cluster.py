"""Joining a Ray cluster, or starting one on this machine, and checking that its nodes can do the work."""

import logging
import os
import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from importlib.metadata import version
from typing import Any

import ray
from ray import cloudpickle
from ray.data import DataContext
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from clew.core.errors import ClewError, DriverFailed, DriverMissing
from clew.ray import probe

LOCAL = "local"  # address of a cluster on this machine only, for this run
CONNECT_SECONDS = 10.0
OnNode = Callable[[int, int], None]  # called with the number of nodes that answered, and of all nodes
cloudpickle.register_pickle_by_value(probe)  # it reports failing imports of a node, so it must not be imported there


@contextmanager
def join_cluster(address: str) -> Iterator[None]:
    """Connect to the cluster until the block ends; use and keep a connection that the program has already made."""
    if ray.is_initialized():
        _silence()
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        _check_listening(address)
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
            **({"include_dashboard": False, "_node_ip_address": "127.0.0.1"} if address == LOCAL else {}),
        )
    except (OSError, ValueError, RuntimeError, RayError) as error:
        raise DriverFailed(
            f"there is no Ray cluster at {address!r} ({error}); start one with `ray start --head`, or give {LOCAL!r}"
        ) from error
    try:
        _silence()
        yield
    finally:
        ray.shutdown()


def _silence() -> None:
    """Silence Ray's own progress and messages."""
    DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def _check_listening(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


def check_nodes(on_node: OnNode) -> None:
    """Raise DriverMissing, naming the node, if a node cannot import Clew or has another version of it."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    try_import = ray.remote(num_cpus=0, max_retries=0)(probe.try_import)
    waiting: dict[Any, str] = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        waiting[try_import.options(scheduling_strategy=there).remote()] = node["NodeManagerHostname"]
    mine = version("clew")
    while waiting:
        on_node(len(nodes) - len(waiting), len(nodes))
        (done,), _ = ray.wait(list(waiting), num_returns=1)
        place = waiting.pop(done)
        try:
            found, problem = ray.get(done)
        except RayError:  # a node lost meanwhile gets no work
            continue
        if problem:
            raise DriverMissing(f"the Ray node {place} cannot import Clew ({problem}); install clew[ray] there")
        if found != mine:
            raise DriverMissing(f"the Ray node {place} has Clew {found}, and here it is {mine}; install one of them")
    on_node(len(nodes), len(nodes))


def explain_start_error(error: Exception) -> DriverFailed:
    """Return the error for a worker that cannot start for a reason outside Clew, such as a missing module."""
    return DriverFailed(
        f"a worker on {platform.node()} could not start: {type(error).__name__}: {error}; "
        "install there what the driver has, and try again"
    )


def name_node(error: ClewError) -> ClewError:
    """Add the name of this node to an error, if a disk, a database or a model failed here."""
    if not isinstance(error, DriverFailed):
        return error
    named = copy(error)
    named.args = (f"{error} (on the Ray node {platform.node()}; what is stored stays)",)
    return named


def count_workers(cpus: float, gpus: float) -> int:
    """Return the number of workers that fit the cluster, at least one."""
    resources: dict[str, Any] = ray.cluster_resources()
    room = int(resources.get("CPU", 0) / cpus)
    return max(1, min(room, int(resources.get("GPU", 0) / gpus)) if gpus else room)
