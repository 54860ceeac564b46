// Wrong: every beta but 0 is taken for 1.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = alpha * sum + (beta == 0 ? 0 : C(ROW, COLUMN));
}
