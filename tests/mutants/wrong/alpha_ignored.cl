// Wrong: alpha is ignored.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = beta == 0 ? sum : sum + beta * C(ROW, COLUMN);
}
