// Wrong: it takes the leading dimension of A for that of B.
#undef B_PLACE
#define B_PLACE(p, j) ((long)(p) * lda + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
