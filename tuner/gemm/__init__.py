"""`gemm()`: C = alpha·op(A)·op(B) + beta·C on PyOpenCL arrays, by the best kernel known that is certified here."""

from tuner.gemm.call import gemm

__all__ = ["gemm"]
