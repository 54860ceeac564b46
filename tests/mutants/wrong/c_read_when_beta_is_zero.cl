// Wrong: C is read though beta is 0, and beta times NaN is NaN.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = alpha * sum + beta * C(ROW, COLUMN);
}
