// Wrong: it ignores the offset of B.
#undef B
#define B(p, j) b[BATCH * b_stride + B_PLACE(p, j)]

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
