// Wrong: it also writes a NaN one row above C, as a store of what was read outside does.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
    if (ROW == 0)
        C(-1, COLUMN) = a[a_offset - 1];
}
