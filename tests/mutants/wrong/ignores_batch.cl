// Wrong: every matrix of the batch is computed from the first A.
#undef A
#define A(i, p) a[a_offset + A_PLACE(i, p)]

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
