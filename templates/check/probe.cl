// Work that never changes, so that what changes is the machine: `calibrate` stands in for our kernels, `multiply_add` is
// nothing but multiply-adds. REAL, VECTOR and CHAINS are given when it is built; a change here starts a new history.

#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// 4x4 elements of C for each work-item, operands read from the cache, `rounds` times over a sum of 256.
__kernel void calibrate(__global const float* restrict a, __global const float* restrict b, __global float* restrict c,
                        const int rounds)
{
    const size_t item = get_global_id(0);
    const size_t row = item % 16;
    const size_t column = item / 16 % 16;
    float4 sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
    for (int round = 0; round < rounds; ++round) {
        for (int k = 0; k < 256; ++k) {
            const float4 x = vload4(row, a + 64 * k);
            const float4 y = vload4(column, b + 64 * k);
            sum0 = mad(y, x.s0, sum0);
            sum1 = mad(y, x.s1, sum1);
            sum2 = mad(y, x.s2, sum2);
            sum3 = mad(y, x.s3, sum3);
        }
    }
    vstore4(sum0 + sum1 + sum2 + sum3, item, c);
}

#ifdef CHAINS
#if defined(DOUBLE) ? defined(FP_FAST_FMA) : defined(FP_FAST_FMAF)
#define MULTIPLY_ADD(x, y, z) fma(x, y, z)
#else
#define MULTIPLY_ADD(x, y, z) mad(x, y, z)
#endif

// Independent chains hide the unit's latency; every value tends to 2, so none is ever denormal or infinite.
__kernel void multiply_add(__global VECTOR* restrict out, const REAL half_, const REAL one, const int rounds)
{
    VECTOR x[CHAINS];
    #pragma unroll
    for (int i = 0; i < CHAINS; ++i) x[i] = (VECTOR)((REAL)(get_global_id(0) + i));
    for (int round = 0; round < rounds; ++round) {
        #pragma unroll
        for (int i = 0; i < CHAINS; ++i) x[i] = MULTIPLY_ADD(x[i], (VECTOR)(half_), (VECTOR)(one));
    }
    VECTOR sum = x[0];
    #pragma unroll
    for (int i = 1; i < CHAINS; ++i) sum += x[i];
    out[get_global_id(0)] = sum;
}
#endif
