"""Makes the files beside this script, which tests read as files of other hands.

Run with numpy 2.4.6, ml_dtypes 0.6.0 and safetensors 0.8.0; the tests themselves need no Python.
Element i of every array, counted in C order, is i - 2 (true where that is not 0).
"""

from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

here = Path(__file__).parent


def array(dtype, *shape):
    return (np.arange(np.prod(shape, dtype=int)) - 2).reshape(shape).astype(dtype)


def save(name, value, version=None):
    with open(here / name, "wb") as file:
        np.lib.format.write_array(file, value, version=version)


save("c-f2.npy", array("<f2", 2, 3))
save("c-f4-big-endian.npy", array(">f4", 2, 3))
save("fortran-f8.npy", np.asfortranarray(array("<f8", 2, 3, 4)))
save("fortran-i4-big-endian.npy", np.asfortranarray(array(">i4", 3, 5)))
save("scalar-i8.npy", array("<i8"))
save("vector-b1.npy", array("?", 5))
save("empty-i1.npy", array("i1", 0, 4))
save("version-2.npy", array("<f4", 2, 3), (2, 0))
save("version-3.npy", array("<f4", 2, 3), (3, 0))
save("objects.npy", np.array([None, 1], dtype=object))
save("complex.npy", array("<c8", 2))
save("structured.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
save("bfloat16.npy", array(ml_dtypes.bfloat16, 3))
np.savez(here / "archive.npz", a=array("<f4", 2))

save_file(
    {
        "f64": array("<f8", 2, 3),
        "f32": array("<f4", 2, 3),
        "f16": array("<f2", 5),
        "bf16": array(ml_dtypes.bfloat16, 3, 1, 2),
        "i8": array("i1", 7),
        "bool": array("?", 3),
        "i32": array("<i4"),
        "i64": array("<i8", 0, 4),
        "u8": array("u1", 3),
        "i16": array("<i2", 3),
        "f8": array(ml_dtypes.float8_e4m3fn, 3),
        "naïve \"name\"\n": array("<f4", 1),
    },
    here / "all-types.safetensors",
    metadata={"format": "np", "note": "line\nbreak"},
)
