"""Calls that are replayed from CUDA graphs, which hide the host."""

from __future__ import annotations

from typing import Callable

import torch


def replayed(calls: list[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """A graph of all calls, whose results do not share memory."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]
    del kept
    return graph


def time(graph: torch.cuda.CUDAGraph) -> float:
    """Milliseconds of one replay, on the GPU."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)
