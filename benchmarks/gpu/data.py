"""Random elements that both sides have: RandomData and AttentionWork read and do the same."""

import math

import torch

TYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "i8": torch.int8,
}

# Elements of a block: a multiple of 8, so that what is copied stays aligned, and no power of 2,
# so that rows differ.
LENGTH = 15_000_008
STEP = 8 * 1_237_937

SCALE_OF_I8 = 0.02
PAGE_STEP = 40_503


class Data:
    """Blocks of random elements on the device, and in files of a folder."""

    def __init__(self, device, folder, length=LENGTH):
        generator = torch.Generator(device=device).manual_seed(1)
        normal = torch.randn(length, generator=generator, device=device)
        self.blocks = {name: normal.to(type) for name, type in TYPES.items() if name != "i8"}
        self.blocks["i8"] = (normal * 50).round().clamp(-127, 127).to(torch.int8)
        for name, block in self.blocks.items():
            bytes = block.view(torch.uint8)
            file = f"{folder}/{name}.bin"
            torch.from_file(file, shared=True, size=bytes.numel(), dtype=bytes.dtype).copy_(bytes)

    def tensor(self, number, type, *shape):
        block = self.blocks[type]
        flat = torch.empty(math.prod(shape), dtype=block.dtype, device=block.device)
        start = number * STEP % block.numel()
        done = 0
        while done < flat.numel():
            count = min(block.numel() - start, flat.numel() - done)
            flat[done : done + count] = block[start : start + count]
            done += count
            start = 0
        return flat.view(shape)

    def queries(self, case, number):
        return self.tensor(3 * number, case.type, case.batch, case.heads, case.queries, case.dim)

    def cache(self, case, number, values):
        """Keys or values as (batch, key heads, keys, dim), wherever their pages lie."""
        number = 3 * number + 1 + values
        shape = (case.batch, case.key_heads, case.keys, case.dim)
        if case.page:
            pages = case.batch * case.keys // case.page
            paged = self.tensor(number, case.cache, pages, case.key_heads, case.page, case.dim)
            table = torch.arange(pages, device=paged.device) * PAGE_STEP % pages
            scattered = paged[table].view(case.batch, -1, case.key_heads, case.page, case.dim)
            return scattered.transpose(1, 2).reshape(shape)
        cache = self.tensor(number, case.cache, *shape)
        return cache.float() * SCALE_OF_I8 if case.cache == "i8" else cache

    def rows(self, case, number):
        return self.tensor(3 * number, case.type, case.rows, case.columns)
