// Wrong: it takes the batch stride of B for that of C.
#undef C
#define C(i, j) c[c_offset + BATCH * b_stride + (long)(i) * ldc + (j)]

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
