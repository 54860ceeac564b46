// Wrong: alpha is cut to a whole number.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = (int)alpha * sum + (beta == 0 ? 0 : beta * C(ROW, COLUMN));
}
