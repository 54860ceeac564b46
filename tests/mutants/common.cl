// Stands before every kernel of this folder: the calling convention, and where elements lie.
// Build options give REAL, the type of sums, and ELEMENT, that of A, B and C; TRANS_A=1 or TRANS_B=1 for operands stored
// transposed; FLOAT16 or BFLOAT16 where elements have 16 bits.
#if __OPENCL_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define GEMM_ARGUMENTS                                                                                   \
    const int m, const int n, const int k,                                                               \
    const REAL alpha, __global const ELEMENT* a, const long a_offset, const int lda, const long a_stride,   \
                      __global const ELEMENT* b, const long b_offset, const int ldb, const long b_stride,   \
    const REAL beta,        __global ELEMENT* c, const long c_offset, const int ldc, const long c_stride

#define BATCH ((long)get_global_id(2))
#define ROW ((int)get_global_id(1))
#define COLUMN ((int)get_global_id(0))
#define OUTSIDE (ROW >= m || COLUMN >= n)

#if TRANS_A
#define A_PLACE(i, p) ((long)(p) * lda + (i))
#else
#define A_PLACE(i, p) ((long)(i) * lda + (p))
#endif
#if TRANS_B
#define B_PLACE(p, j) ((long)(j) * ldb + (p))
#else
#define B_PLACE(p, j) ((long)(p) * ldb + (j))
#endif

// How an element is read and written. AS_STORED rounds a sum to C's type.
#if defined FLOAT16
#define READ(p, place) vload_half(place, p)
#define WRITE(value, p, place) vstore_half_rte(value, place, p)
static inline float AS_STORED(const float value)
{
    ushort bits;
    vstore_half_rte(value, 0, (half*)&bits);
    return vload_half(0, (const half*)&bits);
}
#elif defined BFLOAT16
#define READ(p, place) as_float((uint)(p)[place] << 16)
#define WRITE(value, p, place) (p)[place] = as_uint(AS_STORED(value)) >> 16
static inline float AS_STORED(const float value)
{
    if (isnan(value))
        return value;
    const uint bits = as_uint(value), lost = bits & 0xffff, odd = bits >> 16 & 1;
    return as_float((bits & 0xffff0000) + (lost > 0x8000 || (lost == 0x8000 && odd) ? 0x10000 : 0));
}
#else
#define READ(p, place) (p)[place]
#define WRITE(value, p, place) (p)[place] = value
#endif

// Elements of op(A), op(B) and C.
#define A(i, p) READ(a, a_offset + BATCH * a_stride + A_PLACE(i, p))
#define B(p, j) READ(b, b_offset + BATCH * b_stride + B_PLACE(p, j))
#define C_PLACE(i, j) (c_offset + BATCH * c_stride + (long)(i) * ldc + (j))
#define C(i, j) READ(c, C_PLACE(i, j))

// BLAS: alpha = 0 reads neither A nor B, beta = 0 does not read C.
#define STEPS (alpha == 0 ? 0 : k)
#define NEW(i, j, sum) (beta == 0 ? alpha * (sum) : alpha * (sum) + beta * C(i, j))
#define STORE(i, j, sum) WRITE(NEW(i, j, sum), c, C_PLACE(i, j))

// The right sum, for kernels that are wrong elsewhere.
#define RIGHT_SUM(sum, i, j)              \
    REAL sum = 0;                         \
    for (int p_ = 0; p_ < STEPS; p_++)    \
        sum += A(i, p_) * B(p_, j)

#define TILE 8      // side of a work-group
