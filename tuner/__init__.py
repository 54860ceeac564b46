"""gemm-tuner: find, prove and remember the fastest GEMM kernel configuration for each OpenCL device."""
