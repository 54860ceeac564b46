// Wrong: beta is cut to a whole number.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = alpha * sum + (beta == 0 ? 0 : (int)beta * C(ROW, COLUMN));
}
