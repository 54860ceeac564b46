// Stands before every kernel of this folder: the calling convention, and where elements lie.
// Build options give REAL, and TRANS_A=1 or TRANS_B=1 for operands stored transposed.
#if __OPENCL_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define GEMM_ARGUMENTS                                                                                   \
    const int m, const int n, const int k,                                                               \
    const REAL alpha, __global const REAL* a, const long a_offset, const int lda, const long a_stride,   \
                      __global const REAL* b, const long b_offset, const int ldb, const long b_stride,   \
    const REAL beta,        __global REAL* c, const long c_offset, const int ldc, const long c_stride

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

// Elements of op(A), op(B) and C.
#define A(i, p) a[a_offset + BATCH * a_stride + A_PLACE(i, p)]
#define B(p, j) b[b_offset + BATCH * b_stride + B_PLACE(p, j)]
#define C(i, j) c[c_offset + BATCH * c_stride + (long)(i) * ldc + (j)]

// BLAS: alpha = 0 reads neither A nor B, beta = 0 does not read C.
#define STEPS (alpha == 0 ? 0 : k)
#define STORE(i, j, sum) C(i, j) = beta == 0 ? alpha * (sum) : alpha * (sum) + beta * C(i, j)

// The right sum, for kernels that are wrong elsewhere.
#define RIGHT_SUM(sum, i, j)              \
    REAL sum = 0;                         \
    for (int p_ = 0; p_ < STEPS; p_++)    \
        sum += A(i, p_) * B(p_, j)

#define TILE 8      // side of a work-group
