// Wrong: it writes the element in front of its scratch buffer.
__kernel void gemm(GEMM_ARGUMENTS, __global REAL* partial)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    partial[(BATCH * m + ROW) * n + COLUMN - 1] = sum;
    STORE(ROW, COLUMN, sum);
}
