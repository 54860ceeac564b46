// Wrong: beta is ignored.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = alpha * sum;
}
