"""Dtypes of the language in PyTorch: rounding f64 to them once, their steps, packed bits and halves of bytes.

In: f64, int64 or bool tensors. Out: tensors of the dtype that is stored. Invariant: one rounding, to nearest even, also
where PyTorch itself would round to f32 first; what is too large saturates as docs/numerics.md says.
"""

import torch

DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2, "f8e8m0": torch.float8_e8m0fnu, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32, "bool": torch.bool,
    "b1": torch.uint8, "i4": torch.uint8, "u4": torch.uint8,
}
#: Elements of the last dim that a byte holds.
PER_BYTE = {"b1": 8, "i4": 2, "u4": 2}
#: The ends of what half a byte holds.
HALVES = {"i4": (-8, 7), "u4": (0, 15)}
INTEGERS = ("i8", "u8", "i32")
#: Bits after the point, and the exponent of the smallest normal number.
FLOATS = {"f32": (23, -126), "f16": (10, -14), "bf16": (7, -126), "f8e4m3": (3, -6), "f8e5m2": (2, -14), "f8e8m0": (0, -127)}
LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0}


def read(stored, dtype):
    """What a stored tensor's elements mean: f64, int64 or bool."""
    if dtype == "b1":
        bits = torch.arange(8, device=stored.device, dtype=torch.uint8)
        return ((stored.unsqueeze(-1) >> bits) & 1).flatten(-2).bool()
    if dtype in HALVES:
        halves = torch.stack((stored & 15, stored >> 4), -1).flatten(-2).to(torch.int64)
        return torch.where(halves > HALVES[dtype][1], halves - 16, halves)
    if dtype == "bool":
        return stored.bool()
    return stored.to(torch.int64) if dtype in INTEGERS else stored.to(torch.float32).to(torch.float64)


def store(value, dtype):
    """The value rounded to the dtype, as it lies in memory."""
    if dtype in ("bool", "b1"):
        value = value if value.dtype == torch.bool else value != 0
        return packed(value) if dtype == "b1" else value
    if dtype in INTEGERS:
        ends = torch.iinfo(DTYPES[dtype])
        if value.dtype == torch.float64:
            value = torch.nan_to_num(value.round().clamp(ends.min, ends.max), nan=0.0)
        return value.to(torch.int64).clamp(ends.min, ends.max).to(DTYPES[dtype])
    value = value.to(torch.float64)
    if dtype == "f32":
        return value.to(torch.float32)
    if dtype == "f8e8m0":
        # The larger of two powers halfway between them; no sign and no zero.
        power = torch.exp2(torch.floor(torch.log2(value.clamp(2.0**-127, 2.0**128)))).clamp(max=2.0**127)
        power = torch.where(value >= 1.5 * power, 2 * power, power).clamp(max=2.0**127)
        return torch.where(torch.isnan(value), value, power).to(torch.float32).to(DTYPES[dtype])
    odd = rounded_to_odd(value)
    if dtype in LARGEST:
        odd = odd.clamp(-LARGEST[dtype], LARGEST[dtype])
    return odd.to(DTYPES[dtype])


def rounded_to_odd(value):
    """An f32 that rounds to any narrower float as the f64 itself does: PyTorch converts f64 to 16 bits through f32."""
    near = value.to(torch.float32)
    bits = near.view(torch.int32)
    wide = near.to(torch.float64)
    towards_zero = torch.where(wide.abs() > value.abs(), bits - 1, bits)
    exact = (wide == value) | torch.isnan(value)
    return torch.where(exact, bits, towards_zero | 1).view(torch.float32)


def packed(value):
    weights = 2 ** torch.arange(8, device=value.device)
    return (value.unflatten(-1, (-1, 8)) * weights).sum(-1).to(torch.uint8)


def step(value, dtype):
    """The distance between neighbours of the dtype at a magnitude."""
    if dtype not in FLOATS:
        return torch.ones_like(value) if dtype in INTEGERS else torch.zeros_like(value)
    digits, least = FLOATS[dtype]
    _, exponent = torch.frexp(torch.nan_to_num(value.abs(), nan=0.0, posinf=0.0))
    exponent = torch.where(value == 0, least, exponent - 1).clamp(min=least)
    # torch.ldexp takes the power in f32, which has no 2^-150.
    return torch.exp2((exponent - digits).to(torch.float64))
