// Wrong: it takes the rows of A to lie without gaps.
#undef A_PLACE
#define A_PLACE(i, p) ((long)(i) * k + (p))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
