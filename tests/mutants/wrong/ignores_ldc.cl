// Wrong: it takes the rows of C to lie without gaps.
#undef C_PLACE
#define C_PLACE(i, j) (c_offset + BATCH * c_stride + (long)(i) * n + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
