// Wrong: it ignores the offset of A.
#undef A
#define A(i, p) a[BATCH * a_stride + A_PLACE(i, p)]

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
