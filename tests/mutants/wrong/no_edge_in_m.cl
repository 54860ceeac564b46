// Wrong: no edge test in m; work-items below the last row write there.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (COLUMN >= n)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
