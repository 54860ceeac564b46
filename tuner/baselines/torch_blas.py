"""cuBLAS and rocBLAS as PyTorch brings them: strict arithmetic, small products captured in graphs."""

from __future__ import annotations

import ctypes
import importlib
import time
import warnings
from typing import Any

import numpy as np

from tuner.baselines.adapter import Absent, Array, Parameters, loaded_library
from tuner.model import Device, Problem
from tuner.verify import element_type

GRAPH_BELOW_MS = 0.2
"""Shorter products are captured: their time would otherwise be that of the host's launches."""

GRAPH_PRODUCTS = 16
_TRIES = 10


class _TorchBlas:
    """torch.mm and torch.bmm into a given C; transposed views reach the library as its own flags."""

    name = ""
    dtypes = frozenset(("float32", "float64", "float16", "bfloat16"))
    products = 1

    def __init__(self, device: Device, parameters: Parameters | None = None) -> None:
        """Choose the GPU that `device` is, with reduced precision off. Raises Absent."""
        try:
            self._torch: Any = importlib.import_module("torch")
        except ImportError as error:
            raise Absent(f"PyTorch can't be imported ({error})") from error
        self._check_kind()
        if not self._torch.cuda.is_available():
            raise Absent(f"PyTorch {self._torch.__version__} finds no GPU that it can use")
        self._gpu = self._torch.device("cuda", _index_of(self._torch.cuda, device))
        self._torch.cuda.set_device(self._gpu)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer releases have another spelling, which older ones lack
            self._torch.set_float32_matmul_precision("highest")
            options = self._torch.backends.cuda.matmul
            options.allow_tf32 = False
            options.allow_fp16_reduced_precision_reduction = False
            options.allow_bf16_reduced_precision_reduction = False
        self.version = self._version()
        self._arguments: tuple[Any, ...] = ()
        self._c: Any = None
        self._graph: Any = None
        self.how = self._said = f"PyTorch {self._torch.__version__}, TF32 off"

    def _check_kind(self) -> None:
        """Raise Absent if PyTorch was built for the other vendor."""
        raise NotImplementedError

    def _version(self) -> str:
        """The library's own version."""
        raise NotImplementedError

    def prepare(self, problem: Problem, a: Array, b: Array) -> None:
        """Copy the operands to the GPU; capture the product in a graph if it is short."""
        torch, p = self._torch, problem
        self._arguments, self._c, self._graph, self.products = (), None, None, 1
        torch.cuda.empty_cache()
        left, right = (self._tensor(operand, p.dtype).to(self._gpu) for operand in (a, b))
        left = left.transpose(1, 2) if p.trans_a else left
        right = right.transpose(1, 2) if p.trans_b else right
        self._c = torch.zeros((p.batch, p.m, p.n), dtype=left.dtype, device=self._gpu)
        self._multiply = torch.mm if p.batch == 1 else torch.bmm
        one = p.batch == 1
        self._arguments = (left[0], right[0], self._c[0]) if one else (left, right, self._c)
        self._torch.backends.cuda.matmul.allow_tf32 = p.math == "tf32"
        self._said = f"PyTorch {self._torch.__version__}, TF32 {'on' if p.math == 'tf32' else 'off'}"
        self.how = f"{self._said}, launched one by one"
        if self._eager_ms() < GRAPH_BELOW_MS:
            self._capture()

    def call(self) -> None:
        """Enqueue one product, or a graph of `products`."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self._product()

    def finish(self) -> None:
        """Wait for the GPU."""
        self._torch.cuda.synchronize()

    def result(self) -> Array:
        """C, read back."""
        c = self._c.cpu()
        if self._bfloat16:
            return np.asarray(c.view(self._torch.int16).numpy()).view(element_type("bfloat16"))
        found: Array = c.numpy()
        return found

    def _tensor(self, operand: Array, dtype: str) -> Any:
        """The operand as PyTorch's; of bfloat16 numpy and PyTorch know the bits alone of each other's."""
        self._bfloat16 = dtype == "bfloat16"
        if self._bfloat16:
            return self._torch.from_numpy(operand.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(operand)

    def _product(self) -> None:
        left, right, c = self._arguments
        self._multiply(left, right, out=c)

    def _eager_ms(self) -> float:
        self._product()
        self.finish()
        before = time.perf_counter()
        for _ in range(_TRIES):
            self._product()
        self.finish()
        return (time.perf_counter() - before) * 1e3 / _TRIES

    def _capture(self) -> None:
        """Once beside the main stream first, as PyTorch asks for, so that the library allocates what it needs."""
        cuda = self._torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(3):
                self._product()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            for _ in range(GRAPH_PRODUCTS):
                self._product()
        self._graph, self.products = graph, GRAPH_PRODUCTS
        self.how = f"{self._said}, in a graph of {GRAPH_PRODUCTS}"


class CuBlas(_TorchBlas):
    """cuBLAS."""

    name = "cuBLAS"

    def _check_kind(self) -> None:
        if self._torch.version.cuda is None:
            raise Absent(f"PyTorch {self._torch.__version__} was built without CUDA")

    def _version(self) -> str:
        fallback = f"of CUDA {self._torch.version.cuda}"
        path = loaded_library("libcublas.so")
        if path is None:
            return fallback
        ask = ctypes.CDLL(str(path)).cublasGetProperty
        value, parts = ctypes.c_int(), []
        for kind in range(3):  # libraryPropertyType: major, minor, patch
            if ask(kind, ctypes.byref(value)):
                return fallback
            parts.append(str(value.value))
        return ".".join(parts)


class RocBlas(_TorchBlas):
    """rocBLAS, or hipBLASLt where PyTorch prefers it."""

    name = "rocBLAS"

    def _check_kind(self) -> None:
        if getattr(self._torch.version, "hip", None) is None:
            raise Absent(f"PyTorch {self._torch.__version__} was built without ROCm")

    def _version(self) -> str:
        return f"of ROCm {self._torch.version.hip}"


def _index_of(cuda: Any, device: Device) -> int:
    """PyTorch's number of `device`: by UUID, else the first of its name, else the only one. Raises Absent."""
    found = [cuda.get_device_properties(index) for index in range(cuda.device_count())]
    wanted = device.instance.removeprefix("uuid:")
    for index, properties in enumerate(found):
        if str(getattr(properties, "uuid", "")).replace("-", "").lower().removeprefix("gpu") == wanted:
            return index
    for index, properties in enumerate(found):
        if device.name in properties.name or properties.name in device.name:
            return index
    if len(found) == 1:
        return 0
    raise Absent(f"PyTorch does not show {device.name} among its {len(found)} GPUs")
