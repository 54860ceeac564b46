// Never ends: it waits for an element that nobody writes.
__kernel void hang(const int m, const int n, const int k,
                   const float alpha, __global const float* a, const long a_offset, const int lda, const long a_stride,
                   __global const float* b, const long b_offset, const int ldb, const long b_stride,
                   const float beta, volatile __global float* c, const long c_offset, const int ldc, const long c_stride)
{
    while (c[c_offset] != 12345.0f) {
    }
}
