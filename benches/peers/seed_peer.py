"""The published algorithm of the backward kernels (one thread an output element, atomics and all), in Triton.

Each is checked against PyTorch, then timed with every block size of its list; the best one counts.
Usage: seed_peer.py REQUEST RESULTS
"""

import torch
import triton
import triton.language as tl

from protocol import DTYPES, Memory, serve, time_us


@triton.jit
def cat_kernel(dy, dx, chunk_c, c_total, chunk_offset, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(chunk_c, BLOCK)
    row = pid // tiles
    column = (pid % tiles) * BLOCK + tl.arange(0, BLOCK)
    mask = column < chunk_c
    values = tl.load(dy + row * c_total + chunk_offset + column, mask=mask)
    tl.store(dx + row * chunk_c + column, values, mask=mask)


@triton.jit
def pad_kernel(dy, dx, length, padded, LEFT: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(padded, BLOCK)
    row = pid // tiles
    ol = (pid % tiles) * BLOCK + tl.arange(0, BLOCK)
    il = ol - LEFT
    mask = (ol < padded) & (il >= 0) & (il < length)
    values = tl.load(dy + row * padded + ol, mask=mask)
    tl.store(dx + row * length + il, values, mask=mask)


@triton.jit
def upsample_kernel(dy, dx, h, w, oh, ow, SH: tl.constexpr, SW: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(w, BLOCK)
    row = pid // tiles
    iw = (pid % tiles) * BLOCK + tl.arange(0, BLOCK)
    mask = iw < w
    plane = row // h
    ih = row % h
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(SH):
        for j in tl.static_range(SW):
            place = dy + (plane * oh + ih * SH + i) * ow + iw * SW + j
            total += tl.load(place, mask=mask, other=0.0).to(tl.float32)
    tl.store(dx + row * w + iw, total, mask=mask)


@triton.jit
def conv_kernel(
    dy, x, w, dx, dw, c_in, c_out, h, wd, oh_count, ow_count,
    K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles = tl.cdiv(ow_count, BLOCK)
    tile = pid % tiles
    rest = pid // tiles
    oh = rest % oh_count
    co = rest // oh_count % c_out
    b = rest // oh_count // c_out
    ow = tile * BLOCK + tl.arange(0, BLOCK)
    mask = ow < ow_count
    gradient = tl.load(dy + ((b * c_out + co) * oh_count + oh) * ow_count + ow, mask=mask, other=0.0)
    per_group = c_in // G
    first = (co // (c_out // G)) * per_group
    for index in range(per_group * K * K):
        kw = index % K
        kh = index // K % K
        c = index // K // K
        at = ((co * per_group + c) * K + kh) * K + kw
        weight = tl.load(w + at)
        ih = oh * S + kh - P
        iw = ow * S + kw - P
        inside = mask & (ih >= 0) & (ih < h) & (iw >= 0) & (iw < wd)
        place = ((b * c_in + first + c) * h + ih) * wd + iw
        tl.atomic_add(dx + place, gradient * weight, mask=inside)
        value = tl.load(x + place, mask=inside, other=0.0)
        tl.atomic_add(dw + at, tl.sum(gradient * value))


def check(found, expected, tolerance):
    if tolerance == 0:
        assert torch.equal(found, expected), "the result differs from PyTorch's"
        return
    error = (found.double() - expected.double()).norm() / expected.double().norm()
    assert error < tolerance, f"the result differs from PyTorch's by {error:.1e}"


def best(case, protocol, blocks, launch):
    """The best time over the block sizes; `launch(number, block)` runs the kernel on a set."""
    sets = case["sets"]
    return min(
        time_us(protocol, lambda number, block=block: launch(number % sets, block), sets) for block in blocks
    )


def cat_backward(case, dtype, memory, protocol):
    problem, offset = case["problem"], case["offset"]
    rows, chunk, total, start = (problem[name] for name in ("rows", "chunk", "total", "offset"))
    dys, dxs = memory.tensors(rows * total, dtype, offset), memory.tensors(rows * chunk, dtype, offset)

    def launch(number, block):
        grid = (rows * triton.cdiv(chunk, block),)
        cat_kernel[grid](dys[number], dxs[number], chunk, total, start, BLOCK=block)

    launch(0, 1024)
    check(dxs[0].view(rows, chunk), dys[0].view(rows, total)[:, start : start + chunk], 0)
    return best(case, protocol, (128, 256, 1024, 4096), launch)


def pad_backward(case, dtype, memory, protocol):
    problem, offset = case["problem"], case["offset"]
    rows, length, left = problem["b"] * problem["c"], problem["l"], problem["left"]
    padded = left + length + problem["right"]
    dys, dxs = memory.tensors(rows * padded, dtype, offset), memory.tensors(rows * length, dtype, offset)

    def launch(number, block):
        grid = (rows * triton.cdiv(padded, block),)
        pad_kernel[grid](dys[number], dxs[number], length, padded, LEFT=left, BLOCK=block)

    launch(0, 1024)
    check(dxs[0].view(rows, length), dys[0].view(rows, padded)[:, left : left + length], 0)
    return best(case, protocol, (128, 256, 1024), launch)


def upsample_backward(case, dtype, memory, protocol):
    problem, offset = case["problem"], case["offset"]
    planes, h, w = problem["b"] * problem["c"], problem["h"], problem["w"]
    sh, sw = problem["scale_h"], problem["scale_w"]
    oh, ow = h * sh, w * sw
    dys = memory.tensors(planes * oh * ow, dtype, offset)
    dxs = memory.tensors(planes * h * w, dtype, offset)

    def launch(number, block):
        grid = (planes * h * triton.cdiv(w, block),)
        upsample_kernel[grid](dys[number], dxs[number], h, w, oh, ow, SH=sh, SW=sw, BLOCK=block)

    launch(0, 128)
    # Some planes tell enough, and their sums in f64 fit beside the tensors.
    few = min(planes, 16)
    windows = dys[0][: few * oh * ow].view(few, h, sh, w, sw)
    check(dxs[0][: few * h * w].view(few, h, w), windows.double().sum((2, 4)), 1e-2)
    return best(case, protocol, (64, 128, 256), launch)


def conv_backward(case, dtype, memory, protocol):
    problem, offset = case["problem"], case["offset"]
    b, c_in, c_out, h, w = (problem[name] for name in ("b", "c_in", "c_out", "h", "w"))
    k, stride, pad, g = (problem[name] for name in ("k", "stride", "pad", "g"))
    oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
    counts = (b * c_out * oh * ow, b * c_in * h * w, c_out * (c_in // g) * k * k)
    dys, xs, filters = (memory.tensors(count, dtype, offset) for count in counts)
    dxs, dws = (memory.tensors(count, dtype, offset) for count in counts[1:])

    def launch(number, block):
        grid = (b * c_out * oh * triton.cdiv(ow, block),)
        conv_kernel[grid](
            dys[number], xs[number], filters[number], dxs[number], dws[number],
            c_in, c_out, h, w, oh, ow, K=k, S=stride, P=pad, G=g, BLOCK=block,
        )

    # The algorithm adds to zeroed buffers. They are not zeroed again for timing, which favours it.
    block = min(128, triton.next_power_of_2(ow))
    dxs[0].zero_()
    dws[0].zero_()
    launch(0, block)
    dx, dw, _ = torch.ops.aten.convolution_backward(
        dys[0].view(b, c_out, oh, ow), xs[0].view(b, c_in, h, w), filters[0].view(c_out, c_in // g, k, k),
        None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], g, [True, True, False],
    )
    check(dxs[0], dx.flatten(), 1e-3)
    check(dws[0], dw.flatten(), 1e-3)
    return best(case, protocol, (block,), launch)


WORK = {
    "channel_cat": cat_backward,
    "constant_pad1d": pad_backward,
    "upsample_nearest2d": upsample_backward,
    "conv2d": conv_backward,
}


def measure(case, protocol):
    work = WORK.get(case["op"])
    # The algorithm is published for these; its atomics are measured in f32 alone.
    if work is None or case["direction"] != "bwd" or case["dtype"] not in ("f32", "bf16"):
        return
    if case["op"] == "conv2d" and (case["dtype"] != "f32" or case["math"] != "ieee"):
        return
    yield "seed", work(case, DTYPES[case["dtype"]], Memory(case["sets"]), protocol)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        serve(f"seed algorithm with triton {triton.__version__}", measure)
