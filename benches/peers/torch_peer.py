"""PyTorch (convolutions: cuDNN, autotuned) on the cases of the benches. Usage: torch_peer.py REQUEST RESULTS"""

import torch
import torch.nn.functional as F

from protocol import DEVICE, DTYPES, Memory, serve, time_us

aten = torch.ops.aten

# Bytes that the copy reads, and as many that it writes.
COPY_BYTES = 2 << 30 if DEVICE == "cuda" else 2 << 20

# Rows and columns of the matrices whose product is a rate of the chip.
MATMUL = 8192 if DEVICE == "cuda" else 64


def flatten(case, dtype, memory):
    problem, offset = case["problem"], case["offset"]
    b, n = problem["b"], problem["n"]
    strides = (problem["stride_b"], problem["stride_n"])
    span = (b - 1) * strides[0] + (n - 1) * strides[1] + 1
    strided = [block.as_strided((b, n), strides) for block in memory.tensors(span, dtype, offset)]
    flat = [block.view(b, n) for block in memory.tensors(b * n, dtype, offset)]
    sources, targets = (strided, flat) if case["direction"] == "fwd" else (flat, strided)
    return lambda number: targets[number].copy_(sources[number])


def channel_cat(case, dtype, memory):
    problem, offset = case["problem"], case["offset"]
    rows, chunk, total, start = (problem[name] for name in ("rows", "chunk", "total", "offset"))
    parts = [block.view(rows, chunk) for block in memory.tensors(rows * chunk, dtype, offset)]
    joined = memory.tensors(rows * total, dtype, offset)
    windows = [block.view(rows, total)[:, start : start + chunk] for block in joined]
    sources, targets = (parts, windows) if case["direction"] == "fwd" else (windows, parts)
    return lambda number: targets[number].copy_(sources[number])


def constant_pad1d(case, dtype, memory):
    problem, offset = case["problem"], case["offset"]
    b, c, length, left, right = (problem[name] for name in ("b", "c", "l", "left", "right"))
    if case["direction"] == "fwd":
        xs = [x.view(b, c, length) for x in memory.tensors(b * c * length, dtype, offset)]
        return lambda number: F.pad(xs[number], (left, right), value=1.5)
    padded = left + length + right
    dys = [dy.view(b, c, padded) for dy in memory.tensors(b * c * padded, dtype, offset)]
    return lambda number: F.pad(dys[number], (-left, -right))


def upsample_nearest2d(case, dtype, memory):
    problem, offset = case["problem"], case["offset"]
    b, c, h, w = (problem[name] for name in ("b", "c", "h", "w"))
    scales = [problem["scale_h"], problem["scale_w"]]
    small, large = [b, c, h, w], [b, c, h * scales[0], w * scales[1]]
    count = b * c * h * w
    smalls = [block.view(small) for block in memory.tensors(count, dtype, offset)]
    larges = [block.view(large) for block in memory.tensors(count * scales[0] * scales[1], dtype, offset)]
    factors = [float(scale) for scale in scales]
    if case["direction"] == "fwd":
        return lambda number: aten.upsample_nearest2d.out(
            smalls[number], large[2:], *factors, out=larges[number]
        )
    return lambda number: aten.upsample_nearest2d_backward.grad_input(
        larges[number], large[2:], small, *factors, grad_input=smalls[number]
    )


def conv2d(case, dtype, memory):
    problem, offset = case["problem"], case["offset"]
    b, c_in, c_out, h, w = (problem[name] for name in ("b", "c_in", "c_out", "h", "w"))
    k, stride, pad, g = (problem[name] for name in ("k", "stride", "pad", "g"))
    oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1

    def tensors(*extents):
        count = 1
        for extent in extents:
            count *= extent
        return [block.view(extents) for block in memory.tensors(count, dtype, offset)]

    xs, filters, dys = tensors(b, c_in, h, w), tensors(c_out, c_in // g, k, k), tensors(b, c_out, oh, ow)
    geometry = ([stride, stride], [pad, pad], [1, 1], False, [0, 0], g)
    if case["direction"] == "fwd":
        return lambda number: aten.convolution(xs[number], filters[number], None, *geometry)
    wanted = {"bwd": [True, True, False], "bwd_dx": [True, False, False], "bwd_dw": [False, True, False]}
    mask = wanted[case["direction"]]
    return lambda number: aten.convolution_backward(
        dys[number], xs[number], filters[number], None, *geometry, mask
    )


WORK = {
    "flatten": flatten,
    "channel_cat": channel_cat,
    "constant_pad1d": constant_pad1d,
    "upsample_nearest2d": upsample_nearest2d,
    "conv2d": conv2d,
}


def allow_tf32(allowed):
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def measure(case, protocol):
    sets = case["sets"]
    work = WORK[case["op"]](case, DTYPES[case["dtype"]], Memory(sets))
    in_turn = lambda number: work(number % sets)
    allow_tf32(case["math"] == "tf32")
    torch.backends.cudnn.benchmark = True
    yield "torch", time_us(protocol, in_turn, sets)
    # Forward convolutions are deterministic as they are; of the gradients, both together tell enough.
    if case["op"] == "conv2d" and case["direction"] == "bwd":
        torch.backends.cudnn.deterministic = True
        try:
            yield "torch_deterministic", time_us(protocol, in_turn, sets)
        finally:
            torch.backends.cudnn.deterministic = False


def copy_rate(protocol):
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=DEVICE).random_(0, 256)
    target = torch.empty_like(source)
    us = time_us(protocol, lambda _: target.copy_(source), 1)
    yield {"rate": "torch: copy", "gbps": 2 * COPY_BYTES / us / 1e3}


def matmul_rates(protocol):
    for name, dtype, tf32 in (
        ("f32", torch.float32, False),
        ("TF32", torch.float32, True),
        ("bf16", torch.bfloat16, False),
    ):
        allow_tf32(tf32)
        a, b, c = (torch.empty(MATMUL, MATMUL, dtype=dtype, device=DEVICE).uniform_(-1, 1) for _ in range(3))
        us = time_us(protocol, lambda _: torch.mm(a, b, out=c), 1)
        yield {"rate": f"torch: matrix product {name}", "tflops": 2 * MATMUL**3 / us / 1e6}


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        version = f"torch {torch.__version__}"
        if DEVICE == "cuda":
            version += f" with cuDNN {torch.backends.cudnn.version()}"
        serve(version, measure, probes=(copy_rate, matmul_rates))
