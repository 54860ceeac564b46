// Wrong: no edge test in n; work-items beyond the last column write there, that is, into the next row.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (ROW >= m)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
