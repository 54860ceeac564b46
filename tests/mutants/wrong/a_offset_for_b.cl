// Wrong: it takes the offset of A for that of B.
#undef B
#define B(p, j) b[a_offset + BATCH * b_stride + B_PLACE(p, j)]

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
