// Wrong: the first two columns of C have changed places.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN < 2 ? 1 - COLUMN : COLUMN, sum);
}
