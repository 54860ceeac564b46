// Wrong: the short cut for beta = 1 forgets alpha.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    if (beta == 1)
        C(ROW, COLUMN) += alpha == 0 ? 0 : sum;
    else
        STORE(ROW, COLUMN, sum);
}
