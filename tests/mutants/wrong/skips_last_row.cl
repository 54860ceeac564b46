// Wrong: the edge test is one row too strict.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (ROW >= m - 1 || COLUMN >= n)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
