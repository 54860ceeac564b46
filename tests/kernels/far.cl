// Writes a terabyte beyond its buffer: on a CPU this ends the process, on a GPU it poisons the context.
__kernel void far(const int m, const int n, const int k,
                  const float alpha, __global const float* a, const long a_offset, const int lda, const long a_stride,
                  __global const float* b, const long b_offset, const int ldb, const long b_stride,
                  const float beta, __global float* c, const long c_offset, const int ldc, const long c_stride)
{
    c[(1L << 38) + get_global_id(0)] = 1.0f;
}
