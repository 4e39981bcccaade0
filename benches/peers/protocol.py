"""The protocol of the benches, the same as `measure.rs` has it.

A burst of launches between two events, recorded as a CUDA graph so that the host's part does not count, over
sets of buffers in turn; bursts as long as the request says; after a warm-up the median burst counts, divided by
its launches. On the CPU, where the scripts can be tried, bursts are plain calls timed by the clock.
"""

import gc
import json
import math
import statistics
import sys
import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

DTYPES = {
    "u8": torch.uint8,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}

# Bytes around each tensor, so that a base can be off a boundary.
GAP = 512


class Memory:
    """One block of device memory that the sets of tensors of a case are views of."""

    def __init__(self, sets):
        self.sets = sets
        self.blocks = []

    def tensors(self, elements, dtype, offset, random=True):
        """A tensor for each set, of this many elements, `offset` elements off a boundary."""
        size = torch.empty(0, dtype=dtype).element_size()
        stride = -(-(elements * size + GAP) // GAP) * GAP // size
        block = torch.empty(stride * self.sets + offset, dtype=dtype, device=DEVICE)
        if random and dtype.is_floating_point:
            block.uniform_(-1.0, 1.0)
        elif random:
            block.random_(0, 256)
        self.blocks.append(block)
        return [block[offset + number * stride :][:elements] for number in range(self.sets)]


def record_burst(work, launches):
    """A function that runs the launches once and returns the microseconds that they took together."""
    if DEVICE == "cpu":

        def run_calls():
            start = time.perf_counter()
            for number in range(launches):
                work(number)
            return (time.perf_counter() - start) * 1e6

        return run_calls

    graph = torch.cuda.CUDAGraph()
    # Results stay alive until the end of the recording, so that each has memory of its own.
    results = []
    with torch.cuda.graph(graph):
        for number in range(launches):
            results.append(work(number))
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)

    def replay():
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    # The tensors belong to the graph's memory, which lives as long as the graph does.
    replay.results = results
    return replay


def launches_of(protocol, one_us, sets):
    """Launches of a burst, if one takes this long."""

    def within(us):
        return math.ceil(us / max(one_us, 0.1))

    wanted = max(within(protocol["burst_us"]), min(sets, within(protocol["rotation_us"])))
    return min(max(wanted, 1), protocol["launches"])


def warm_up(work):
    """Runs the work outside a recording: libraries choose their algorithms and compile."""
    if DEVICE == "cpu":
        work(0)
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for number in range(3):
            work(number)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def time_us(protocol, work, sets):
    """Microseconds of one launch; `work(number)` enqueues it on the set of that number."""
    warm_up(work)
    burst = record_burst(work, 1)
    burst()
    launches = launches_of(protocol, burst(), sets)
    if launches > 8:
        # A single launch takes longer than its share of a burst.
        burst = record_burst(work, 8)
        burst()
        launches = launches_of(protocol, burst() / 8, sets)
    burst = record_burst(work, launches)
    burst()
    times, spent = [], 0.0
    while len(times) < protocol["bursts"] and (
        len(times) < protocol["least_bursts"] or spent < protocol["budget_us"]
    ):
        times.append(burst())
        spent += times[-1]
    return statistics.median(times) / launches


def serve(peer, measure, probes=()):
    """Reads the request that the first argument names, measures each case, and writes a line for each.

    `measure(case, protocol)` yields pairs of a peer's name and its microseconds. A case that it does not know is
    left out; one that fails is written with the reason.
    """
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} REQUEST.json RESULTS.jsonl")
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    protocol = request["protocol"]
    # Each recording of a graph collects garbage; what was imported is none.
    gc.freeze()
    # Should the time run out, the yardstick's cases are there.
    cases = sorted(request["cases"], key=lambda case: not case["quick"])
    with open(sys.argv[2], "w", encoding="utf-8") as results:

        def write(line):
            results.write(json.dumps(line) + "\n")
            results.flush()

        write({"version": peer})
        for probe in probes:
            try:
                for line in probe(protocol):
                    write(line)
            except Exception as error:
                print(f"{peer}: {probe.__name__}: {error}", file=sys.stderr)
        for case in cases:
            try:
                for name, us in measure(case, protocol):
                    write({"id": case["id"], "peer": name, "us": us})
            # Whatever a library raises: the other cases go on.
            except Exception as error:
                reason = str(error).strip().splitlines() or [type(error).__name__]
                write({"id": case["id"], "peer": peer.split()[0], "error": reason[0][:200]})
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
