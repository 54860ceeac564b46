// Wrong: it takes the rows of B to lie without gaps.
#undef B_PLACE
#define B_PLACE(p, j) ((long)(p) * n + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
