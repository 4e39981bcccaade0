"""Makes the goldens: what PyTorch computes on a CPU for random inputs, as one safetensors file an operation.

    pip install torch safetensors numpy
    python tests/goldens/generate.py

Each file's metadata has one entry, `golden`, which is JSON: the versions, and the list of cases. A case has its id,
element type and sizes; its results are the tensors named `<number of the case>/<result>`. A result that sums or
rounds comes twice: as PyTorch computes it in the case's type, and with `.f64` behind its name as the right answer.
Beside these, `magnitudes` has for each result of a sum the largest Σ|terms| of its elements, from which tests derive
bounds.

The right answers are PyTorch's in float64, from the same inputs, which are exact in the narrower type. For f64 itself
they are computed in numpy's longdouble (64 bits of fraction at least), in loops written out here, and rounded. These
loops also check PyTorch's float64.

Inputs are not stored. Each comes from SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014), seeded by the text "<case's id> <input's name>": starting from 0, each byte b of the text
replaces the state by next(state) xor b. From the words that follow, `bits` takes the low bits, `unit` makes numbers
from -1 to 1: the upper 53 bits · 2^-52 - 1 for f64; for the other floats the upper 24 bits · 2^-23 - 1, rounded to
nearest even. `below(n)` is the upper half of the product with n.
"""

import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
INTEGERS = {
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}
TYPES = INTEGERS | FLOATS
MASK = (1 << 64) - 1


def mixed(z):
    """SplitMix64's output for a state, of a number or an array."""
    wide = isinstance(z, np.ndarray)
    z = (z ^ (z >> 30)) * (np.uint64(0xBF58476D1CE4E5B9) if wide else 0xBF58476D1CE4E5B9)
    z = z if wide else z & MASK
    z = (z ^ (z >> 27)) * (np.uint64(0x94D049BB133111EB) if wide else 0x94D049BB133111EB)
    z = z if wide else z & MASK
    return z ^ (z >> 31)


GAMMA = 0x9E3779B97F4A7C15


def words(seed_text, count):
    state = 0
    for byte in seed_text.encode():
        state = mixed((state + GAMMA) & MASK) ^ byte
    steps = np.arange(1, count + 1, dtype=np.uint64)
    return mixed(np.uint64(state) + steps * np.uint64(GAMMA))


def bits(seed_text, dtype, shape):
    """Any bit patterns."""
    raw = words(seed_text, math.prod(shape))
    unsigned = raw.astype(f"uint{TYPES[dtype].itemsize * 8}")
    signed = torch.from_numpy(unsigned.view(unsigned.dtype.name.removeprefix("u")))
    return signed.view(TYPES[dtype]).reshape(shape)


def unit(seed_text, dtype, shape, factor=1.0):
    """Numbers from -1 to 1, times a power of two."""
    raw = words(seed_text, math.prod(shape))
    if dtype == "f64":
        values = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    else:
        values = (raw >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1.0
    return (torch.from_numpy(values) * factor).to(TYPES[dtype]).reshape(shape)


def below(seed_text, bound, count):
    return torch.tensor([(int(word) * bound) >> 64 for word in words(seed_text, count)], dtype=torch.int64)


def long(tensor):
    """A float tensor as longdouble; exact."""
    return tensor.double().numpy().astype(np.longdouble)


class Golden:
    """One file under way."""

    def __init__(self, op):
        self.op, self.cases, self.tensors = op, [], {}

    def case(self, shape_id, dtype, **sizes):
        number = len(self.cases)
        self.cases.append({"id": f"{self.op}/{shape_id}/{dtype}", "dtype": dtype, **sizes})
        return number, self.cases[-1]["id"]

    def copy(self, number, name, result):
        self.tensors[f"{number}/{name}"] = result.contiguous().clone()

    def rounded(self, number, name, typed, wide, exact, magnitude=None):
        """A result in its own type, in PyTorch's float64, and in longdouble."""
        size = float(np.max(magnitude, initial=0.0)) if magnitude is not None else 1.0
        gap = np.abs(long(wide) - exact)
        assert typed.shape == wide.shape == exact.shape, (self.cases[number], name)
        assert not gap.size or gap.max() <= 1e-13 * max(size, 1.0), (self.cases[number], name, gap.max())
        right = torch.from_numpy(exact.astype(np.float64)) if typed.dtype == torch.float64 else wide
        self.copy(number, name, typed)
        self.copy(number, f"{name}.f64", right)
        if magnitude is not None:
            self.cases[number].setdefault("magnitudes", {})[name] = size

    def save(self):
        # One entry, since the order of several is not the same each time.
        about = {"torch": torch.__version__, "numpy": np.__version__, "cases": self.cases}
        path = HERE / f"{self.op}.safetensors"
        save_file(self.tensors, path, {"golden": json.dumps(about)})
        print(f"{path.name}: {len(self.cases)} cases, {len(self.tensors)} results, {path.stat().st_size} bytes")
        return len(self.cases)


def flatten():
    golden = Golden("flatten")
    # Rows, columns and their strides: contiguous, column-major, gaps, a permuted middle, one of each, a broadcast.
    shapes = [(5, 33, 33, 1), (33, 7, 1, 33), (16, 24, 1, 16), (6, 20, 25, 1), (9, 8, 2, 19), (1, 65, 65, 1)]
    shapes += [(65, 1, 1, 0), (4, 12, 0, 1), (7, 6, 6, 7)]
    for dtype in TYPES:
        for b, n, sb, sn in shapes:
            number, key = golden.case(f"{b}x{n}:{sb},{sn}", dtype, extents=[b, n, sb, sn])
            span = (b - 1) * sb + (n - 1) * sn + 1
            x = bits(f"{key} x", dtype, [span])
            golden.copy(number, "y", torch.as_strided(x, (b, n), (sb, sn)).flatten(1))
            if sb > 0:
                dx = bits(f"{key} dx", dtype, [span])
                torch.as_strided(dx, (b, n), (sb, sn)).copy_(bits(f"{key} dy", dtype, [b, n]))
                golden.copy(number, "dx", dx)
        # A permuted image: channels last.
        for c, h, w in [(12, 2, 5), (2, 9, 3)]:
            number, key = golden.case(f"{c}x{h}x{w}permuted", dtype, extents=[h * w, c, 1, h * w])
            x = bits(f"{key} x", dtype, [c, h, w])
            golden.copy(number, "y", x.permute(1, 2, 0).flatten(0, 1))
            dy = bits(f"{key} dy", dtype, [h, w, c])
            golden.copy(number, "dx", dy.permute(2, 0, 1).flatten())
    return golden.save()


def channel_cat():
    golden = Golden("channel_cat")
    shapes = [(2, [1, 2], [3, 5]), (1, [4, 4], [2, 8]), (3, [7], [1, 3]), (2, [1, 3, 2], [5, 1])]
    shapes += [(5, [1, 1, 1, 1, 1, 1, 1, 1], [1, 1]), (2, [8, 1, 16], [2, 2]), (4, [3, 33], [1, 1])]
    for dtype in TYPES:
        for b, chunks, (h, w) in shapes:
            name = "+".join(map(str, chunks))
            number, key = golden.case(f"{b}x({name})x{h}x{w}", dtype, rows=b, chunks=[c * h * w for c in chunks])
            parts = [bits(f"{key} x{i}", dtype, [b, c, h, w]) for i, c in enumerate(chunks)]
            golden.copy(number, "y", torch.cat(parts, 1))
            dy = bits(f"{key} dy", dtype, [b, sum(chunks), h, w])
            for i, part in enumerate(torch.split(dy, chunks, 1)):
                golden.copy(number, f"dx{i}", part)
    return golden.save()


def constant_pad1d():
    golden = Golden("constant_pad1d")
    shapes = [(2, 3, 7, 1, 2), (1, 4, 16, 0, 0), (3, 1, 5, 6, 0), (2, 2, 9, -2, 3), (1, 5, 12, -3, -4)]
    shapes += [(2, 3, 1, 7, 7), (1, 1, 130, 3, 3), (4, 2, 8, -8, 5), (2, 2, 33, 0, -1)]
    for dtype in TYPES:
        for b, c, length, left, right in shapes:
            extents = [b, c, length, length + left + right]
            number, key = golden.case(f"{b}x{c}x{length}:{left},{right}", dtype, pads=[left, right], extents=extents)
            value = int(below(f"{key} value", 100, 1)[0])
            x = bits(f"{key} x", dtype, [b, c, length])
            golden.copy(number, "y", F.pad(x, (left, right), value=value))
            dy = bits(f"{key} dy", dtype, [b, c, extents[3]])
            if dtype in FLOATS:
                x = x.clone().requires_grad_()
                (dx,) = torch.autograd.grad(F.pad(x, (left, right), value=value), x, dy)
            else:
                dx = F.pad(dy, (-left, -right))
            golden.copy(number, "dx", dx)
    return golden.save()


def upsample_nearest2d():
    golden = Golden("upsample_nearest2d")
    shapes = [(1, 2, 3, 4, 2, 2), (2, 1, 2, 3, 3, 3), (1, 3, 5, 1, 1, 4), (2, 2, 1, 7, 4, 1), (1, 1, 9, 11, 2, 1)]
    shapes += [(1, 2, 1, 1, 7, 5), (3, 1, 4, 4, 1, 1), (1, 1, 2, 17, 2, 3)]
    for dtype in TYPES:
        for b, c, h, w, sh, sw in shapes:
            shape = f"{b}x{c}x{h}x{w}:{sh},{sw}"
            extents = [b, c, h, w, h * sh, w * sw]
            number, key = golden.case(shape, dtype, scales=[sh, sw], extents=extents)
            x = bits(f"{key} x", dtype, [b, c, h, w])
            if dtype not in FLOATS:
                golden.copy(number, "y", x.repeat_interleave(sh, 2).repeat_interleave(sw, 3))
                continue
            golden.copy(number, "y", F.interpolate(x, scale_factor=(sh, sw), mode="nearest"))
            dy = unit(f"{key} dy", dtype, [b, c, h * sh, w * sw])

            def gradient(dy):
                x = torch.zeros([b, c, h, w], dtype=dy.dtype, requires_grad=True)
                y = F.interpolate(x, scale_factor=(sh, sw), mode="nearest")
                return torch.autograd.grad(y, x, dy)[0]

            windows = long(dy).reshape(b, c, h, sh, w, sw)
            exact = windows.sum((3, 5))
            golden.rounded(number, "dx", gradient(dy), gradient(dy.double()), exact, np.abs(windows).sum((3, 5)))
    return golden.save()


def conv2d_exact(x, w, dy, stride, pad, groups):
    """y, dx and dw in longdouble, tap by tap."""
    (b, _, h, wd), (c_out, cig, kh, kw), (_, _, oh, ow) = x.shape, w.shape, dy.shape
    cog = c_out // groups
    padded = np.zeros((b, x.shape[1], h + 2 * pad[0], wd + 2 * pad[1]), np.longdouble)
    padded[:, :, pad[0] : pad[0] + h, pad[1] : pad[1] + wd] = x
    y, dxp, dw = np.zeros(dy.shape, np.longdouble), np.zeros_like(padded), np.zeros(w.shape, np.longdouble)
    for g in range(groups):
        ins, outs = slice(g * cig, (g + 1) * cig), slice(g * cog, (g + 1) * cog)
        for i in range(kh):
            for j in range(kw):
                rows = slice(i, i + (oh - 1) * stride[0] + 1, stride[0])
                columns = slice(j, j + (ow - 1) * stride[1] + 1, stride[1])
                seen, tap = padded[:, ins, rows, columns], w[outs, :, i, j]
                y[:, outs] += np.einsum("bchw,oc->bohw", seen, tap)
                dxp[:, ins, rows, columns] += np.einsum("bohw,oc->bchw", dy[:, outs], tap)
                dw[outs, :, i, j] = np.einsum("bohw,bchw->oc", dy[:, outs], seen)
    return y, dxp[:, :, pad[0] : pad[0] + h, pad[1] : pad[1] + wd], dw


def conv2d():
    golden = Golden("conv2d")
    # Batch, channels in and out, height, width; filter, stride, pad; groups. The last five have the channels
    # that tiled kernels want.
    shapes = [
        (2, 3, 4, 7, 6, (3, 3), (1, 1), (1, 1), 1),
        (1, 2, 4, 8, 8, (3, 3), (1, 1), (1, 1), 1),
        (1, 4, 4, 4, 4, (3, 3), (2, 2), (1, 1), 4),
        (2, 6, 6, 7, 9, (3, 3), (2, 2), (1, 1), 6),
        (1, 24, 24, 6, 6, (3, 3), (2, 2), (1, 1), 24),
        (2, 4, 6, 7, 5, (3, 2), (2, 1), (1, 0), 2),
        (1, 6, 4, 5, 5, (1, 1), (1, 1), (0, 0), 2),
        (3, 5, 3, 6, 6, (1, 1), (2, 2), (0, 0), 1),
        (1, 3, 2, 11, 10, (7, 7), (2, 2), (3, 3), 1),
        (2, 2, 3, 6, 8, (2, 2), (3, 3), (0, 0), 1),
        (1, 1, 1, 5, 5, (5, 5), (1, 1), (4, 4), 1),
        (2, 3, 6, 9, 4, (1, 4), (1, 2), (0, 3), 3),
        (1, 2, 5, 1, 40, (1, 3), (1, 1), (0, 1), 1),
        (4, 2, 2, 3, 3, (3, 3), (1, 1), (0, 0), 2),
        (2, 8, 4, 5, 7, (3, 3), (1, 2), (2, 1), 4),
        (1, 17, 16, 5, 6, (2, 2), (1, 1), (0, 0), 1),
        (2, 16, 18, 4, 5, (1, 1), (1, 1), (0, 0), 1),
        (1, 16, 17, 6, 6, (3, 2), (2, 2), (1, 1), 1),
        (1, 32, 32, 4, 4, (1, 3), (1, 1), (0, 1), 2),
        (1, 16, 16, 6, 8, (1, 1), (2, 2), (0, 0), 1),
    ]
    # Long sums, as networks have them: over channels and taps, and over pixels. Only the short result is kept.
    long_sums = [
        (1, 128, 16, 4, 5, (3, 3), (1, 1), (1, 1), 1, ["y"]),
        (1, 16, 128, 4, 5, (3, 3), (1, 1), (1, 1), 1, ["dx"]),
        (2, 2, 96, 7, 7, (3, 3), (2, 2), (1, 1), 1, ["dx"]),
        (1, 4, 16, 32, 33, (3, 3), (1, 1), (1, 1), 1, ["dw"]),
        (4, 16, 16, 16, 17, (1, 1), (1, 1), (0, 0), 1, ["dw"]),
        (3, 6, 6, 24, 24, (3, 3), (2, 2), (1, 1), 2, ["dw"]),
    ]
    shapes = [(*shape, ["y", "dx", "dw"]) for shape in shapes] + long_sums
    for dtype in FLOATS:
        for b, c_in, c_out, h, w, kernel, stride, pad, groups, kept in shapes:
            oh = (h + 2 * pad[0] - kernel[0]) // stride[0] + 1
            ow = (w + 2 * pad[1] - kernel[1]) // stride[1] + 1
            number, key = golden.case(
                f"{b}x{c_in}x{h}x{w}:{c_out},k{kernel[0]}x{kernel[1]},s{stride[0]}x{stride[1]},"
                f"p{pad[0]}x{pad[1]},g{groups}",
                dtype,
                constants=[*kernel, *stride, *pad, groups],
                extents=[b, c_in, c_out, h, w, oh, ow],
            )
            given = [
                unit(f"{key} x", dtype, [b, c_in, h, w]),
                unit(f"{key} w", dtype, [c_out, c_in // groups, *kernel]),
                unit(f"{key} dy", dtype, [b, c_out, oh, ow]),
            ]

            def results(x, w, dy):
                x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
                y = F.conv2d(x, w, stride=stride, padding=pad, groups=groups)
                return y.detach(), *torch.autograd.grad(y, (x, w), dy)

            typed, wide = results(*given), results(*(tensor.double() for tensor in given))
            exact = conv2d_exact(*map(long, given), stride, pad, groups)
            sizes = conv2d_exact(*(np.abs(long(tensor)) for tensor in given), stride, pad, groups)
            for name, *result in zip(["y", "dx", "dw"], typed, wide, exact, sizes):
                if name in kept:
                    golden.rounded(number, name, *result)
    return golden.save()


def relu():
    golden = Golden("relu")
    for dtype, torch_type in FLOATS.items():
        for n, any_bits in [(7, False), (300, True), (1025, True)]:
            number, key = golden.case(f"{n}", dtype, len=n, any_bits=any_bits)
            x = (bits if any_bits else unit)(f"{key} x", dtype, [n]).clone()
            dy = unit(f"{key} dy", dtype, [n])
            x[: min(n, 5)] = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0], dtype=torch_type)[:n]
            y = torch.relu(x)
            golden.copy(number, "y", y)
            golden.copy(number, "dx", torch.ops.aten.threshold_backward(dy, y, 0))
    return golden.save()


def bias_add():
    golden = Golden("bias_add")
    integers = [dtype for dtype in INTEGERS if dtype in ["u8", "i32", "i64"]]
    for dtype in [*integers, *FLOATS]:
        for b, c, h, w in [(2, 3, 4, 5), (1, 7, 1, 3), (3, 2, 9, 11), (4, 1, 17, 3)]:
            number, key = golden.case(f"{b}x{c}x{h}x{w}", dtype, extents=[b, c, h, w])
            made = unit if dtype in FLOATS else bits
            x, bias = made(f"{key} x", dtype, [b, c, h, w]), made(f"{key} bias", dtype, [c])
            dy = made(f"{key} dy", dtype, [b, c, h, w])
            if dtype not in FLOATS:
                golden.copy(number, "y", x + bias.view(1, -1, 1, 1))
                golden.copy(number, "dbias", dy.sum((0, 2, 3)).to(TYPES[dtype]))
                continue

            def results(x, bias, dy):
                bias = bias.clone().requires_grad_()
                y = x + bias.view(1, -1, 1, 1)
                return y.detach(), torch.autograd.grad(y, bias, dy)[0]

            (y, dbias), (wide_y, wide_dbias) = results(x, bias, dy), results(x.double(), bias.double(), dy.double())
            lx, lb, ld = long(x), long(bias).reshape(1, -1, 1, 1), long(dy)
            golden.rounded(number, "y", y, wide_y, lx + lb, np.abs(lx) + np.abs(lb))
            golden.rounded(number, "dbias", dbias, wide_dbias, ld.sum((0, 2, 3)), np.abs(ld).sum((0, 2, 3)))
    return golden.save()


def softmax_cross_entropy():
    golden = Golden("softmax_cross_entropy")
    scale = 0.25
    for dtype in FLOATS:
        for b, k in [(5, 10), (3, 2), (4, 33), (2, 300), (16, 17)]:
            number, key = golden.case(f"{b}x{k}", dtype, extents=[b, k], scale=scale)
            logits = unit(f"{key} logits", dtype, [b, k], 8.0)
            labels = below(f"{key} labels", k, b)

            def results(logits):
                logits = logits.clone().requires_grad_()
                loss = F.cross_entropy(logits, labels, reduction="none") * scale
                return loss.detach(), torch.autograd.grad(loss.sum(), logits)[0]

            rows = long(logits)
            shares = np.exp(rows - rows.max(1, keepdims=True))
            sums = shares.sum(1, keepdims=True)
            chosen = np.eye(k, dtype=np.longdouble)[labels.numpy()]
            loss = np.log(sums[:, 0]) + rows.max(1) - (rows * chosen).sum(1)
            exact = scale * loss, scale * (shares / sums - chosen)
            for name, typed, wide, right in zip(["loss", "dx"], results(logits), results(logits.double()), exact):
                golden.rounded(number, name, typed, wide, right)
    return golden.save()


def sgd_step():
    golden = Golden("sgd_step")
    for dtype, torch_type in FLOATS.items():
        master = torch.float64 if dtype == "f64" else torch.float32
        # Exact in the weights' type, so that every computation starts from the same numbers.
        numbers = [float(torch.tensor(number, dtype=master)) for number in [0.1, 0.9, 0.01, 0.3]]
        rate, momentum, decay, scale = numbers
        for n in [5, 64, 1000]:
            number, key = golden.case(f"{n}", dtype, len=n)
            name = "f64" if dtype == "f64" else "f32"
            given = [unit(f"{key} w", name, [n]), unit(f"{key} velocity", name, [n]), unit(f"{key} dw", dtype, [n])]

            def results(w, velocity, dw):
                w = torch.nn.Parameter(w.clone())
                optimiser = torch.optim.SGD([w], lr=rate, momentum=momentum, weight_decay=decay)
                optimiser.state[w]["momentum_buffer"] = velocity.clone()
                w.grad = dw.to(w.dtype) * scale
                optimiser.step()
                return w.detach(), optimiser.state[w]["momentum_buffer"]

            (w, velocity), (wide_w, wide_velocity) = results(*given), results(*(t.double() for t in given))
            lw, lv, ld = map(long, given)
            exact_velocity = np.longdouble(momentum) * lv + (np.longdouble(scale) * ld + np.longdouble(decay) * lw)
            exact_w = lw - np.longdouble(rate) * exact_velocity
            golden.rounded(number, "w", w, wide_w, exact_w)
            golden.rounded(number, "velocity", velocity, wide_velocity, exact_velocity)
            if dtype in ["f16", "bf16"]:
                golden.rounded(number, "copy", w.to(torch_type), wide_w, exact_w)
    return golden.save()


def cast():
    golden = Golden("cast")
    n = 200
    for dtype in FLOATS:
        for target, target_type in FLOATS.items():
            number, key = golden.case(f"to_{target}", dtype, len=n, to=target)
            # Half of the inputs are small numbers, half are any bits.
            x = torch.cat([unit(f"{key} x", dtype, [n // 2], 4.0), bits(f"{key} bits", dtype, [n // 2])])
            golden.copy(number, "y", x.to(target_type))
    return golden.save()


def main():
    torch.set_num_threads(1)
    ops = [flatten, channel_cat, constant_pad1d, upsample_nearest2d, conv2d, relu, bias_add]
    ops += [softmax_cross_entropy, sgd_step, cast]
    print(f"{sum(op() for op in ops)} cases in all")


if __name__ == "__main__":
    main()
