// Wrong: the edge test takes m for n and n for m, which is right for square C only.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (ROW >= n || COLUMN >= m)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
