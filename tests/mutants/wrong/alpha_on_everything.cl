// Wrong: alpha multiplies beta·C, too.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = alpha * (sum + (beta == 0 ? 0 : beta * C(ROW, COLUMN)));
}
