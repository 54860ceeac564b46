// Wrong: it takes the rows of C to lie without gaps.
#undef C
#define C(i, j) c[c_offset + BATCH * c_stride + (long)(i) * n + (j)]

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
